"""The table of commands and their modules, which are imported lazily."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import typer

_COMMANDS = "pystate_cli.commands"


@dataclass(frozen=True)
class CommandEntry:
    """One command, or a group of commands.

    Attributes:
        module: Its module below `pystate_cli.commands`.
        attribute: Its function, or its `typer.Typer` for a group.
        words: The module's function that prepares its words, for commands followed by the arguments of a program.
        summary: The first sentence of its help, so that all commands are listed without the import of their modules.
    """

    module: str
    attribute: str
    words: str | None = None
    summary: str = ""

    def load(self) -> Any:
        """Return the function or the group."""
        return getattr(self._module(), self.attribute)

    def prepared(self, words: list[str]) -> list[str]:
        """Return the words for the parser, given the words after the command's name."""
        if self.words is None:
            return words
        return list(getattr(self._module(), self.words)(words))

    def _module(self) -> Any:
        return importlib.import_module(f"{_COMMANDS}.{self.module}")


COMMANDS: dict[str, CommandEntry] = {
    "run": CommandEntry("run", "run", "run_arguments", summary="Run a job: attached until it ends, or detached with -d."),
    "dev": CommandEntry(
        "dev",
        "dev",
        "dev_arguments",
        summary="Run a job, and at each save of its program go on with the new code from the state of a moment ago.",
    ),
    "check": CommandEntry(
        "check",
        "check",
        "check_arguments",
        summary="Find errors of a program without Spark: graph, uids, types, states, functions, "
        "settings; exit code 1 if there are any.",
    ),
    "debug": CommandEntry(
        "debug",
        "debug",
        "debug_arguments",
        summary="Replay a record or a timer in one operator with the state of its key, under pdb, without Spark.",
    ),
    "info": CommandEntry(
        "info",
        "info",
        "info_arguments",
        summary="Show the plan of a program without running its job: a tree on a terminal, Flink's JSON in a pipe.",
    ),
    "graph": CommandEntry(
        "graph",
        "graph",
        summary="Draw the graph of a job: as a tree, and with --svg as a picture. Of job.py it "
        "is drawn without running a job.",
    ),
    "list": CommandEntry(
        "list_jobs", "list_jobs", summary="List jobs: a table on a terminal, the flink client's lines in a pipe."
    ),
    "watch": CommandEntry(
        "watch",
        "watch",
        summary="Watch a job like top: throughput, backlog, epoch times, operators, checkpoints. q or Ctrl-C ends it.",
    ),
    "ui": CommandEntry(
        "ui",
        "ui",
        summary="Open the dashboard in a browser, logged in: jobs, checkpoints, savepoints and "
        "state. In a pipe the address is printed.",
    ),
    "logs": CommandEntry(
        "logs", "logs", summary="Show the log of a job, also of one that has ended; what a detached job prints is in it."
    ),
    "exceptions": CommandEntry(
        "exceptions",
        "exceptions",
        summary="Show the last failures of a job, those it was restarted after among them; -v adds their stack traces.",
    ),
    "metrics": CommandEntry(
        "metrics",
        "metrics",
        summary="Show what is measured of a job: its subtasks, its checkpoints, and what its functions count.",
    ),
    "wait": CommandEntry(
        "wait",
        "wait",
        summary="Wait for the end of jobs and take over their fate: exit code 0 if all have "
        "FINISHED, else 1, with the reasons.",
    ),
    "stop": CommandEntry(
        "stop", "stop", summary="Stop a job with a savepoint and print its path; if the savepoint fails the job goes on."
    ),
    "cancel": CommandEntry(
        "cancel", "cancel", summary="Cancel a job and wait for its end; with -s print the path of its savepoint."
    ),
    "rescale": CommandEntry(
        "rescale", "rescale", summary="Give a running job another parallelism, and print the id it goes on with."
    ),
    "savepoint": CommandEntry(
        "snapshots.savepoint",
        "savepoint",
        summary="Take a savepoint of a running job and print its path; or delete one with -d.",
    ),
    "savepoints": CommandEntry(
        "snapshots.savepoints.group",
        "savepoints",
        summary="Savepoints as versions of a job: list, compare, verify and delete them.",
    ),
    "checkpoint": CommandEntry(
        "snapshots.checkpoint", "checkpoint", summary="Take a checkpoint of a running job now, and print its id."
    ),
    "checkpoints": CommandEntry(
        "snapshots.checkpoints",
        "checkpoints",
        summary="Show the latest checkpoints and savepoints of a job, or one of them down to its subtasks.",
    ),
    "state": CommandEntry("snapshots.state_read", "state", summary="Look into the state of checkpoints and savepoints."),
    "query": CommandEntry(
        "query", "query", summary="Look into the state of a running job: a row for each value, list element or map entry."
    ),
    "cluster": CommandEntry("cluster", "cluster", summary="Start, stop and look at the job manager of this home."),
    "config": CommandEntry(
        "config", "config", summary="Show the settings in force and where each comes from; or take over those of a Flink."
    ),
    "doctor": CommandEntry(
        "doctor",
        "doctor",
        summary="Look whether jobs can run here: Python, Java, Spark, cores, storage, ports, job manager, disks, clock.",
    ),
    "new": CommandEntry(
        "new", "new", summary="Make a project: a job with state, a test of it that needs no Spark, and its settings."
    ),
    "completion": CommandEntry(
        "completion",
        "completion",
        summary="Print the script that completes commands, options, job ids and names, savepoints and settings in a shell.",
    ),
    "version": CommandEntry("version", "version", summary="Print the version, and the commit that it is of."),
}
"""The commands by name."""


def register(app: typer.Typer, names: Iterable[str], listed: Iterable[str] = ()) -> None:
    """Add commands to the application.

    Args:
        app: The application.
        names: Commands that can be run.
        listed: Commands of which only the name and the summary are needed.
    """
    for name in listed:
        app.command(name, help=COMMANDS[name].summary)(_listed)
    for name in names:
        entry = COMMANDS[name]
        found = entry.load()
        if isinstance(found, typer.Typer):
            app.add_typer(found)
        elif entry.words is not None:
            app.command(name, context_settings={"allow_interspersed_args": False})(found)
        else:
            app.command(name)(found)


def _listed() -> None:
    """Stand for a command in a list of all."""
