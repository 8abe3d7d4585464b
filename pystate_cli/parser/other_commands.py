"""Commands of other tools that don't exist here, each with its equivalent."""

from __future__ import annotations

_LIST = "pystate list shows the running jobs, pystate list -a all of them"

OTHER_COMMANDS: dict[str, str] = {
    "run-application": "pystate run -d runs each job in a driver process of its own, which is what application mode is for",
    "help": "pystate --help lists the commands, pystate COMMAND --help explains one",
    **dict.fromkeys(("ps", "ls", "jobs", "status"), _LIST),
    **dict.fromkeys(("kill", "rm", "delete"), "pystate cancel JOBID ends a job; pystate stop JOBID takes a savepoint first"),
    **dict.fromkeys(("start", "submit", "exec"), "pystate run job.py runs a job, pystate cluster start the job manager"),
    **dict.fromkeys(("resume", "restore", "restart"), "pystate run -s PATH job.py starts from a savepoint or checkpoint"),
    "scale": "pystate rescale JOBID -p N",
    "top": "pystate watch JOBID",
    **dict.fromkeys(("tail", "log"), "pystate logs -f JOBID"),
    "errors": "pystate exceptions JOBID",
    "snapshot": "pystate savepoint JOBID; pystate checkpoint JOBID triggers a checkpoint",
    "dispose": "pystate savepoints dispose PATH",
    "init": "pystate new NAME makes a project",
    "serve": "pystate cluster start",
}
"""Name -> the command to type instead: `run-application` is Flink's, the others are those that people try."""
