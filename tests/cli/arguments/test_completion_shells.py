"""Completion as the shells themselves do it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.shells import InteractiveShell, needs_shell, with_command
from tests.runtime.checkpoint.stats.statistics import Statistics

StartShell = Callable[[str], InteractiveShell]
# what each shell would run, were it to read the name as its own language
NASTY = ('a"; touch HIT; "', "b$(touch HIT)", "c`touch HIT`", "d'; touch HIT; '", "e\\$(touch HIT)", 'f\\"; touch HIT; \\"')


@pytest.fixture
def environment(tmp_path: Path, own_home: Path) -> dict[str, str]:
    return with_command(tmp_path)


@pytest.fixture
def start(tmp_path: Path, environment: dict[str, str]) -> Iterator[StartShell]:
    shells: list[InteractiveShell] = []

    def started(name: str) -> InteractiveShell:
        shells.append(InteractiveShell(name, tmp_path, environment))
        return shells[-1]

    yield started
    for shell in shells:
        shell.close()


@pytest.fixture
def fish(tmp_path: Path, environment: dict[str, str]) -> Callable[[str], dict[str, str]]:
    """Return what fish offers at the end of a line: each word with what it stands for."""
    folder = tmp_path / "fish-settings" / "fish" / "completions"
    folder.mkdir(parents=True)
    variables = {**environment, "XDG_CONFIG_HOME": str(tmp_path / "fish-settings")}
    script = subprocess.run(["pystate", "completion", "fish"], env=variables, capture_output=True, check=True)
    (folder / "pystate.fish").write_bytes(script.stdout)

    def offered(line: str) -> dict[str, str]:
        # the line is data here, not part of the program
        program = ["fish", "-c", "complete -C $argv[1]", line]
        done = subprocess.run(program, env=variables, capture_output=True, text=True, check=True)
        return dict(entry.partition("\t")[::2] for entry in done.stdout.splitlines())

    return offered


@pytest.fixture
def jobs(manager) -> dict[str, str]:
    """Jobs by name: one runs, one has ended."""
    found = {
        "word-count": manager.submit("--name", "word-count"),
        "older": manager.submit("--name", "older", "--finish", "0"),
    }
    manager.wait_for(found["word-count"], "RUNNING")
    manager.wait_for(found["older"], "FINISHED")
    statistics = Statistics(folder="/data/word-count").run(1).run(2, savepoint=True)
    statistics.write(manager.home.job(found["word-count"]).checkpoints)
    return found


@needs_shell("zsh")
def test_zsh(jobs, start):
    zsh = start("zsh")
    count, older = jobs["word-count"], jobs["older"]

    assert zsh.complete("pystate cance")[0] == "pystate cancel "
    assert zsh.complete("pystate cancel wo")[0] == "pystate cancel word-count "
    assert zsh.complete(f"pystate logs {older[:6]}")[0] == f"pystate logs {older} "
    assert zsh.complete("pystate stop --dra")[0] == "pystate stop --drain "
    assert zsh.complete("pystate run job.py; pystate run -s /sp")[0].endswith(" -s /sp/savepoint-2 ")
    assert zsh.complete("pystate config state.backend.ty")[0] == "pystate config state.backend.type "
    shown = zsh.complete("pystate wait ")[1]
    assert f"RUNNING {count}" in shown
    assert f"FINISHED {older}" in shown


@needs_shell("bash")
def test_bash(jobs, start):
    bash = start("bash")
    count, older = jobs["word-count"], jobs["older"]

    assert bash.complete("pystate cance")[0] == "pystate cancel "
    assert bash.complete("pystate cancel wo")[0] == "pystate cancel word-count "
    assert bash.complete("pystate run -s /sp")[0] == "pystate run -s /sp/savepoint-2 "
    shown = bash.complete("pystate wait ", tabs=2)[1]
    assert {"word-count", "older", count, older} <= set(shown.split())


@needs_shell("fish")
def test_fish(jobs, fish, tmp_path):
    count, older = jobs["word-count"], jobs["older"]
    (tmp_path / "job.py").touch()

    assert fish("pystate cance") == {"cancel": "Cancel a job and wait for its end; with -s..."}
    assert fish("pystate cancel ") == {"word-count": f"RUNNING {count}", count: "RUNNING word-count"}
    assert {"older": f"FINISHED {older}", older: "FINISHED older"}.items() <= fish("pystate wait ").items()
    assert fish("pystate run -s /sp") == {"/sp/savepoint-2": "savepoint 2 of word-count"}
    assert "--drain" in fish("pystate stop --dr")
    assert "job.py" in fish("pystate run j"), "where nothing else is offered, files are"


@pytest.mark.parametrize("name", [pytest.param(name, marks=needs_shell(name)) for name in ("zsh", "bash")])
def test_no_shell_runs_what_a_job_is_called(manager, start, tmp_path, name):
    ids = [manager.submit("--name", nasty) for nasty in NASTY]
    for job in ids:
        manager.wait_for(job, "RUNNING")

    shown = start(name).complete("pystate cancel ", tabs=2)[1]

    assert all(job in shown for job in ids)
    assert list(tmp_path.rglob("HIT")) == []


@needs_shell("fish")
def test_fish_does_not_run_what_a_job_is_called(manager, fish, tmp_path):
    ids = [manager.submit("--name", nasty) for nasty in (*NASTY, "g(touch HIT)")]
    for job in ids:
        manager.wait_for(job, "RUNNING")

    assert set(fish("pystate cancel ")) == set(ids)
    assert list(tmp_path.rglob("HIT")) == []
