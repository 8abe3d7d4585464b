"""The programs of a file in one job on Spark answer as they did in PyFlink."""

from __future__ import annotations

import json

import pytest

from pystate.datastream import StreamExecutionEnvironment
from tests.fidelity.answers import load_programs
from tests.fidelity.differences import PENDING
from tests.fidelity.ours import Collected
from tests.fidelity.recorded import IN_ONE_EPOCH, expected, read

ALL_PROGRAMS = load_programs("pystate")
FILES = sorted({program.name.partition(".")[0] for program in ALL_PROGRAMS} - {"processing_time"})
"""Without those of which nothing is due before their only epoch ends."""


@pytest.mark.slow
@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("file", FILES)
def test_the_programs_of_a_file_answer_as_in_pyflink(run_job, file: str, parallelism: int):
    programs = [
        program
        for program in ALL_PROGRAMS
        if program.name.startswith(f"{file}.") and parallelism in program.parallelisms and program.name not in PENDING
    ]
    if not programs:
        pytest.skip(f"{file} has no program for parallelism {parallelism}")
    collected = Collected()

    def job():
        env = StreamExecutionEnvironment.get_execution_environment()
        for program in programs:
            collected.collect(program, env)
        env.execute(file)

    run_job(job, {"parallelism.default": str(parallelism)}).result(240)
    recorded, in_one_epoch = read(), json.loads(IN_ONE_EPOCH.read_text("utf-8"))
    wanted = {}
    for program in programs:
        there = expected(recorded, program, "STREAMING", parallelism)
        # the collection of a paced program is one epoch here, however slowly its elements go by
        wanted.update({label: in_one_epoch[label] if program.paced else answer for label, answer in there.items()})
    assert collected.answers() == dict(sorted(wanted.items()))
