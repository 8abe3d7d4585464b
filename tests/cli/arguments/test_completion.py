"""`pystate completion`, and what it offers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
import typer
from typer.main import get_command

import pystate_cli.arguments.completions as completions
from pystate_cli.arguments.completions import Completion, complete_key
from pystate_cli.command_line import application
from tests.runtime.checkpoint.stats.statistics import Statistics

HEAVY = ("pyspark", "pyarrow", "pandas", "starlette", "uvicorn", "msgpack", "asyncio", "fsspec")


def context_of(**given: object) -> typer.Context:
    """Return the context of a command of which some parameters are given already."""
    context = typer.Context(get_command(application(("list",))))
    context.params = given
    return context


def complete_job(incomplete: str, **given: object) -> list[Completion]:
    return completions.complete_job(context_of(**given), incomplete)


def complete_running_job(incomplete: str) -> list[Completion]:
    return completions.complete_running_job(context_of(), incomplete)


def complete_queryable_state(incomplete: str, **given: object) -> list[Completion]:
    return completions.complete_queryable_state(context_of(**given), incomplete)


def complete_savepoint(incomplete: str, **given: object) -> list[Completion]:
    return completions.complete_savepoint(context_of(**given), incomplete)


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
    missing, wrong = pystate("completion"), pystate("completion", "tcsh")

    assert (missing.code, wrong.code) == (2, 2)
    assert missing.err == (
        "error: Missing argument 'bash|zsh|fish'. Choose from: bash, zsh, fish\n  try: pystate completion --help\n"
    )
    assert wrong.err == (
        "error: Invalid value for 'bash|zsh|fish': 'tcsh' is not one of 'bash', 'zsh', 'fish'.\n"
        "  try: pystate completion --help\n"
    )


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


def test_what_changes_a_job_is_offered_those_that_run(manager):
    running = manager.submit("--name", "word-count")
    ended = manager.submit("--name", "older", "--finish", "0")
    manager.wait_for(running, "RUNNING")
    manager.wait_for(ended, "FINISHED")

    assert [word for word, _ in complete_running_job("")] == ["word-count", running]
    for command in ("cancel", "stop", "savepoint", "checkpoint", "rescale"):
        assert offered("bash", "pystate", command, "o") == []
    for command in ("wait", "watch", "logs", "exceptions", "metrics", "checkpoints"):
        assert offered("bash", "pystate", command, "o") == ["older"]


def test_what_a_name_says_to_a_shell_is_not_passed_on(manager):
    job = manager.submit("--name", "a\\$(x) `y` \"z\" 'q' [red] é")
    manager.wait_for(job, "RUNNING")

    assert complete_job("") == [(job, "RUNNING a???x? ?y? ?z? ?q? ?red? é")]


def test_the_job_manager_is_that_of_the_line_and_of_the_settings(manager, running, monkeypatch, tmp_path):
    assert complete_job("fake", job_manager="127.0.0.1:1") == [], "nobody is there"
    monkeypatch.setenv("PYSTATE_HOME", str(tmp_path / "other"))
    assert complete_job("fake") == []

    assert [word for word, _ in complete_job("fake", job_manager=f"127.0.0.1:{manager.port}")] == ["fake"]
    assert offered("bash", "pystate", "cancel", "-m", f"127.0.0.1:{manager.port}", "fa") == ["fake"]

    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "flink-conf.toml").write_text('"security.ssl.rest.enabled" = true\n')
    assert complete_job("fake", job_manager=f"127.0.0.1:{manager.port}") == [], "it speaks no TLS"
    (tmp_path / "conf" / "flink-conf.toml").write_text('"no.such.option" = 1\n"state.nonsense" = 2\n')
    assert complete_job("fake", job_manager=f"127.0.0.1:{manager.port}") == [], "settings that can't be read"


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
        "import typer\n"
        "from typer.main import get_command\n"
        "from pystate_cli.arguments.completions import complete_job\n"
        "from pystate_cli.command_line import application\n"
        "assert complete_job(typer.Context(get_command(application())), '')\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])\n"
    )

    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert finished.stdout == "[]\n"


def test_the_queryable_states_of_the_job_are_offered(running):
    assert complete_queryable_state("", job=running)[0][0] in ("counts", "query-name", "sums", "words")
    assert complete_queryable_state("que", job=running) == [("query-name", "VALUE by LONG, of averages")]
    assert complete_queryable_state("", job="f" * 32) == []
    assert complete_queryable_state("") == []
