"""Programs that stop every few elements, and go on with other subtasks and another state backend, answer as ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from pystate.core.api.executor import current_executor, register_executor
from pystate.datastream import StreamExecutionEnvironment
from tests.fidelity.answers import Program, load_programs
from tests.fidelity.ours import Collected
from tests.fidelity.recorded import expected, read
from tests.fidelity.restarting import RestartingExecutor

ATTEMPTS = [(2, "rocksdb"), (1, "hashmap"), (3, "rocksdb"), (3, "hashmap")]
PROGRAMS = [
    *(f"generated.seed_{seed}" for seed in range(8)),
    "event_windows.session",
    "joins.interval_around",
    "timer_kinds.co_process_with_state_and_sides",
    "timer_kinds.flushed_one_after_another",
    "window_kinds.session_dynamic_reduce",
]


@pytest.mark.parametrize(
    "program", [one for one in load_programs("pystate") if one.name in PROGRAMS], ids=lambda one: one.name
)
def test_a_program_answers_the_same_over_restarts(program: Program, tmp_path: Path):
    collected = Collected()
    before = current_executor()
    register_executor(RestartingExecutor(ATTEMPTS, 7 if program.name.startswith("generated") else 2, tmp_path))
    try:
        env = StreamExecutionEnvironment.get_execution_environment()
        collected.collect(program, env)
        env.execute(program.name)
    finally:
        register_executor(before)
    assert collected.answers() == expected(read(), program, "STREAMING", 1)


def test_each_program_is_there():
    assert set(PROGRAMS) <= {program.name for program in load_programs("pystate")}
