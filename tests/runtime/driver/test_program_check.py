"""What `pystate check` says of programs that are right: nothing."""

from __future__ import annotations

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.program_finding import Severity
from pystate.core.api.executor import register_executor
from pystate.datastream import StreamExecutionEnvironment
from pystate.runtime.driver.program.submitted_program import ProgramTaken
from pystate.runtime.driver.program_check import CheckExecutor
from tests.fidelity.answers import load_programs


def findings_of(program):
    executor = CheckExecutor(Configuration())
    register_executor(executor)
    try:
        environment = StreamExecutionEnvironment.get_execution_environment()
        for stream in program.streams(environment).values():
            stream.print()
        with pytest.raises(ProgramTaken):
            environment.execute("job")
    finally:
        register_executor(None)
    return executor.findings


def test_programs_that_run_in_pyflink_and_here_have_no_errors_and_no_late_states():
    programs = load_programs("pystate")
    assert len(programs) > 300
    wrong = [
        (program.name, finding.message)
        for program in programs
        for finding in findings_of(program)
        if finding.severity is Severity.ERROR or finding.check == "state"
    ]
    assert wrong == []
