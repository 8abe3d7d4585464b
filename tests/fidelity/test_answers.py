"""Every program answers as it did in PyFlink: the recorded answers, against the operators in one process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fidelity.answers import PROGRAMS, Program, load_programs
from tests.fidelity.differences import DIFFERENCES, PENDING
from tests.fidelity.in_process import ALL
from tests.fidelity.ours import ask
from tests.fidelity.recorded import FILE, IN_ONE_EPOCH, expected, read

RECORDED = read(FILE)
ALL_PROGRAMS = load_programs("pystate")
NAMES = [program.name for program in ALL_PROGRAMS]
PAGES = [Path(__file__).parents[2] / "docs" / name for name in ("time.md", "pyflink.md")]


def cases(programs, *, wider_ones=()):
    return [
        pytest.param(
            program, parallelism, id=f"{program.name}-{parallelism}", marks=() if parallelism == narrowest else wider_ones
        )
        for program in programs
        for narrowest in [min(program.parallelisms)]
        for parallelism in program.parallelisms
    ]


@pytest.mark.parametrize(("program", "parallelism"), cases(ALL_PROGRAMS))
def test_a_program_answers_as_in_pyflink(program: Program, parallelism: int):
    if program.name in PENDING:
        pytest.skip(PENDING[program.name])
    found = ask(program, parallelism, 1 if program.paced else ALL)
    assert found == expected(RECORDED, program, "STREAMING", parallelism)


@pytest.mark.parametrize(
    ("program", "parallelism"), cases((one for one in ALL_PROGRAMS if not one.paced), wider_ones=pytest.mark.slow)
)
def test_where_epochs_end_makes_no_difference(program: Program, parallelism: int):
    if program.name in PENDING:
        pytest.skip(PENDING[program.name])
    assert ask(program, parallelism, 1) == expected(RECORDED, program, "STREAMING", parallelism)


@pytest.mark.parametrize(("program", "parallelism"), cases(one for one in ALL_PROGRAMS if one.batch))
def test_a_program_in_batch_mode_answers_as_in_pyflink(program: Program, parallelism: int):
    assert ask(program, parallelism, mode="BATCH") == expected(RECORDED, program, "BATCH", parallelism)


def test_elements_of_one_epoch_are_not_late_for_each_other():
    found = {}
    for program in ALL_PROGRAMS:
        if program.paced:
            found.update(ask(program, 1))
    assert found == json.loads(IN_ONE_EPOCH.read_text("utf-8"))


def test_each_difference_is_one_of_a_program_and_is_explained_on_a_page():
    labels = {label for answered in RECORDED["answers"].values() for label in answered}
    pages = "".join(page.read_text("utf-8") for page in PAGES)
    for label, difference in DIFFERENCES.items():
        assert label in labels
        assert f"| {difference.topic}" in pages, f"no row of a table begins with {difference.topic!r}"
    assert set(PENDING) <= set(NAMES)


def test_programs_import_pyflink_and_nothing_else_of_a_system():
    for path in PROGRAMS.glob("*.py"):
        text = path.read_text("utf-8")
        assert "from pyflink" in text
        assert "pystate" not in text


def test_the_record_says_what_was_asked():
    assert RECORDED["versions"]["apache-flink"] == "2.3.0"
    assert len(NAMES) >= 40
    for program in ALL_PROGRAMS:
        for parallelism in program.parallelisms:
            assert expected(RECORDED, program, "STREAMING", parallelism)
