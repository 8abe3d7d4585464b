"""PyFlink runs a few programs in each process, and a run that is interrupted goes on where it stopped."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fidelity import asking
from tests.fidelity.answers import load_programs
from tests.fidelity.asking import SUBTASKS_PER_PROCESS, ask_pyflink
from tests.fidelity.recorded import FILE, read
from tests.waiting import wait_until

PROGRAMS = load_programs("pystate", ["aggregations."])
"""Enough for some processes."""
ALONE = [program for program in PROGRAMS if program.name in ("aggregations.sum_of_tuples", "aggregations.of_texts")]
FIRST, SECOND = (program.name for program in ALONE)


@pytest.fixture
def ask(monkeypatch, tmp_path):
    """What takes PyFlink's place gives recorded answers, and keeps what it was asked; `change` comes before."""

    def run(change: str = "pass", *, programs=PROGRAMS) -> list[list[str]]:
        asked = tmp_path / "asked"
        asked.write_text("", "utf-8")
        script = tmp_path / "asks.py"
        script.write_text(
            "import json, os, subprocess, sys\n"
            "from pathlib import Path\n"
            "output, mode, parallelism, paced, *names = sys.argv[1:]\n"
            f"with open({str(asked)!r}, 'a') as log: print(json.dumps(sys.argv[2:]), file=log)\n"
            f"{change}\n"
            f"recorded = json.loads(Path({str(FILE)!r}).read_text())\n"
            "given = recorded['answers'][f'{mode} {parallelism}']\n"
            "found = {label: one for label, one in given.items() if label.partition(':')[0] in names}\n"
            "Path(output).write_text(json.dumps({'answers': found, 'versions': recorded['versions']}))\n",
            "utf-8",
        )
        monkeypatch.setattr(asking, "ASKS", script)
        told: list[str] = []
        try:
            ask_pyflink(Path(sys.executable), tmp_path / "answers.json", programs, told.append)
        finally:
            run.told = told
            run.asked = [json.loads(line) for line in asked.read_text("utf-8").splitlines()]
        return run.asked

    return run


def answered(folder):
    return json.loads((folder / "answers.json").read_text("utf-8"))


def names_of(given):
    return {label.partition(":")[0] for label in given}


def test_each_process_has_a_few_programs_and_together_they_have_all(ask, tmp_path):
    asked = ask()
    assert max(len(names) * int(parallelism) for _, parallelism, _, *names in asked) == SUBTASKS_PER_PROCESS
    assert {(mode, number, name) for mode, number, _, *names in asked for name in names} == {
        (mode, str(parallelism), program.name)
        for program in PROGRAMS
        for mode in ("STREAMING", "BATCH")[: 2 if program.batch else 1]
        for parallelism in program.parallelisms
    }
    recorded = read()
    for where, given in answered(tmp_path)["answers"].items():
        assert given == {label: one for label, one in recorded["answers"][where].items() if label in given}
    assert answered(tmp_path)["versions"] == recorded["versions"]
    assert (
        ask.told[0]
        == f"PyFlink: process 1 of {len(asked)}, STREAMING at 1: {SUBTASKS_PER_PROCESS} programs, {PROGRAMS[0].name} ..."
    )


def test_a_run_that_is_interrupted_goes_on_where_it_stopped(ask, tmp_path, monkeypatch):
    stop = tmp_path / "stop"
    script = f"if parallelism == '2' and Path({str(stop)!r}).exists(): sys.exit(1)"
    asked = ask(script)
    stop.touch()

    def interrupted(*words):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(asking.Unfinished, "finish", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ask(script)
    assert not (tmp_path / "answers.json").exists()
    stop.unlink()
    left = ask(script)
    assert left == [one for one in asked if one[1] == "2"]
    assert names_of(answered(tmp_path)["answers"]["STREAMING 1"]) == {program.name for program in PROGRAMS}
    assert list(tmp_path.glob("*.unfinished.json")) == []
    assert ask(script) == asked, "a run that has come to its end is not gone on with"


def test_what_has_changed_in_the_meantime_is_asked_again(ask, tmp_path, monkeypatch):
    asked = ask()
    monkeypatch.setattr(asking.Unfinished, "finish", lambda *words: None)
    ask()
    assert ask() == []
    monkeypatch.setenv("FIDELITY_SEEDS", "100-101")
    assert ask() == asked


def test_what_is_no_longer_asked_is_no_answer(ask, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(asking.Unfinished, "finish", lambda *words: None)
        ask()
    ask(programs=[replace(program, parallelisms=(1,)) for program in ALONE])
    given = {where: names_of(answers) for where, answers in answered(tmp_path)["answers"].items()}
    assert given["STREAMING 1"] == {FIRST, SECOND}
    assert not any(names for where, names in given.items() if where.endswith(" 2"))


def test_a_program_that_pyflink_cannot_run_is_alone_at_last_and_spoils_no_other(ask, tmp_path):
    asked = ask(f"if {SECOND!r} in names: sys.exit(1)")
    assert ["STREAMING", "1", "at once", SECOND] in asked
    given = answered(tmp_path)["answers"]["STREAMING 1"]
    assert FIRST in names_of(given)
    assert SECOND not in names_of(given)


def test_one_that_hangs_is_ended_with_all_that_it_has_started(ask, tmp_path, monkeypatch):
    monkeypatch.setattr(asking, "SECONDS_PER_PROCESS", 1)
    child = tmp_path / "child"
    sleeps = "subprocess.Popen(['sleep', '60']).pid"
    hangs = f"if {FIRST!r} in names and parallelism == '1': Path({str(child)!r}).write_text(str({sleeps})); os.wait()"
    ask(hangs, programs=ALONE)
    given = answered(tmp_path)["answers"]["STREAMING 1"]
    assert names_of(given) == {SECOND}
    assert "has hung for 1 s" in (tmp_path / "answers.log").read_text("utf-8")
    wait_until(lambda: not _runs(int(child.read_text("utf-8"))))  # what the process has started goes, too


def _runs(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] != "Z"
