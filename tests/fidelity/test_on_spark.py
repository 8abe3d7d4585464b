"""The programs of a file answer in jobs on Spark as they did in PyFlink: a few programs to a job."""

from __future__ import annotations

import json

import pytest

from pystate.datastream import StreamExecutionEnvironment
from tests.fidelity.answers import Program, load_programs
from tests.fidelity.differences import PENDING
from tests.fidelity.ours import Collected
from tests.fidelity.recorded import IN_ONE_EPOCH, expected, read
from tests.waiting import LONGEST_S

PROGRAMS_PER_JOB = 5
"""What a job takes grows faster than its programs: one of 17 took minutes on two cores."""
WITHOUT = ("processing_time",)
"""Files of which nothing is due before their only epoch ends."""


def _cases() -> list[object]:
    cases: list[object] = []
    for parallelism in (1, 2):
        by_file: dict[str, list[Program]] = {}
        for program in load_programs("pystate"):
            file = program.name.partition(".")[0]
            if parallelism in program.parallelisms and program.name not in PENDING and file not in WITHOUT:
                by_file.setdefault(file, []).append(program)
        for file, programs in by_file.items():
            for number, first in enumerate(range(0, len(programs), PROGRAMS_PER_JOB), 1):
                few = programs[first : first + PROGRAMS_PER_JOB]
                cases.append(pytest.param(few, parallelism, id=f"{file}-{number}-{parallelism}"))
    return cases


@pytest.mark.slow
@pytest.mark.parametrize(("programs", "parallelism"), _cases())
def test_programs_answer_as_in_pyflink(run_job, programs: list[Program], parallelism: int):
    collected = Collected()

    def job():
        env = StreamExecutionEnvironment.get_execution_environment()
        collected.collect_all(programs, env)
        env.execute(programs[0].name)

    run_job(job, {"parallelism.default": str(parallelism)}).result(LONGEST_S)
    recorded, in_one_epoch = read(), json.loads(IN_ONE_EPOCH.read_text("utf-8"))
    wanted = {}
    for program in programs:
        there = expected(recorded, program, "STREAMING", parallelism)
        # the collection of a paced program is one epoch here, however slowly its elements go by
        wanted.update({label: in_one_epoch[label] if program.paced else answer for label, answer in there.items()})
    assert collected.answers() == dict(sorted(wanted.items()))
