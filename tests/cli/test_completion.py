"""`pystate completion`, and what it offers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from pystate_cli.completions import complete_job, complete_key, complete_savepoint
from tests.jobmanager.checkpoint_statistics import Statistics

HEAVY = ("pyspark", "pyarrow", "pandas", "starlette", "uvicorn", "msgpack", "asyncio", "fsspec")


def offered(shell: str, *words: str) -> list[str]:
    """Return what a shell would offer at the end of a command line."""
    variables = {**os.environ, "_PYSTATE_COMPLETE": f"complete_{shell}"}
    if shell == "bash":
        variables |= {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    else:
        variables |= {"_TYPER_COMPLETE_ARGS": " ".join(words), "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    done = subprocess.run([sys.executable, "-m", "pystate_cli"], env=variables, capture_output=True, text=True)
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if line]


@pytest.mark.parametrize(
    ("shell", "mark"), [("bash", "complete -o default"), ("zsh", "compdef"), ("fish", "complete --command")]
)
def test_the_script_of_each_shell(pystate, shell, mark):
    code, out, err = pystate("completion", shell)

    assert (code, err) == (0, "")
    assert mark in out
    assert "_PYSTATE_COMPLETE" in out
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=out, text=True, check=True)


def test_wrong_shells(pystate):
    assert pystate("completion").code == 2
    assert pystate("completion", "tcsh").code == 2


def test_commands_and_options_are_offered():
    assert offered("bash", "pystate", "checkp") == ["checkpoint", "checkpoints"]
    assert {"--detached", "--json"} <= set(offered("bash", "pystate", "savepoint", "--"))
    assert offered("bash", "pystate", "completion", "") == ["bash", "zsh", "fish"]


def test_each_offer_is_one_line():
    lines = offered("fish", "pystate", "run", "-")

    assert all(line.startswith("-") for line in lines)
    assert any("\t" in line for line in lines)


def test_jobs_are_offered_by_name_and_by_id(manager):
    running = manager.submit("--name", "word-count")
    odd = manager.submit("--name", "a b; rm $(x)")
    ended = manager.submit("--name", "older", "--finish", "0")
    for job in (running, odd):
        manager.wait_for(job, "RUNNING")
    manager.wait_for(ended, "FINISHED")

    assert [word for word, _ in complete_job("w")] == ["word-count"]
    words = dict(complete_job(""))
    assert words["word-count"] == f"RUNNING {running}"
    assert {running, odd, ended} <= set(words)
    assert not any(" " in word or "$" in word for word in words), "a shell would have to quote it"
    assert offered("bash", "pystate", "stop", running[:5]) == [running]
    assert "word-count" in offered("bash", "pystate", "cancel", "")


def test_savepoints_are_offered(manager, running):
    Statistics().run(1).run(2, savepoint=True).write(manager.home.job(running).checkpoints)

    assert dict(complete_savepoint("/sp")) == {"/sp/savepoint-2": "savepoint 2 of fake"}
    assert len(complete_savepoint("")) == 2


def test_keys_are_offered():
    assert "execution.checkpointing.interval" in dict(complete_key("execution.checkp"))


def test_without_a_job_manager_nothing_is_offered_and_nothing_said(own_home):
    assert complete_job("") == []
    assert complete_savepoint("") == []
    assert offered("bash", "pystate", "stop", "") == []
    own_home.mkdir()
    (own_home / "jobmanager.json").write_text("[")
    assert complete_job("") == []


def test_an_offer_imports_nothing_heavy(manager, running):
    program = (
        "import sys\n"
        "from pystate_cli.completions import complete_job\n"
        "from pystate_cli.command_line import application\n"
        "application()\n"
        "assert complete_job('')\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])\n"
    )

    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert finished.stdout == "[]\n"
