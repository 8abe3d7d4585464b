"""What `pystate check` says of programs that are right: nothing."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pystate.common import Types, WatermarkStrategy
from pystate.common.configuration.configuration import Configuration
from pystate.common.program_finding import Severity
from pystate.connectors.sql import SqlSink
from pystate.core.api.executor import register_executor
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.connectors.file_system import FileSource
from pystate.datastream.connectors.http import HttpSink
from pystate.datastream.formats.json import JsonLinesFormat
from pystate.datastream.formats.parquet import ParquetColumnarRowInputFormat
from pystate.runtime.driver.program.submitted_program import ProgramTaken
from pystate.runtime.driver.program_check import CheckExecutor
from tests.fidelity.answers import load_programs
from tests.hypothesis_profiles import in_short_and_at_length


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


@in_short_and_at_length
def test_programs_that_run_in_pyflink_and_here_have_no_errors_and_no_late_states(at_length):
    programs = load_programs("pystate")
    assert len(programs) > 300
    if not at_length:
        programs = programs[::8]
    wrong = [
        (program.name, finding.message)
        for program in programs
        for finding in findings_of(program)
        if finding.severity is Severity.ERROR or finding.check == "state"
    ]
    assert wrong == []


def test_steps_after_files_whose_columns_are_declared_are_looked_at(tmp_path):
    row = Types.ROW_NAMED(["user", "page"], [Types.STRING(), Types.STRING()])

    def keyed_by(column, file_format, build=FileSource.for_record_stream_format):
        def streams(environment):
            source = build(file_format, str(tmp_path)).build()
            clicks = environment.from_source(source, WatermarkStrategy.no_watermarks(), "clicks").uid("clicks")
            return {"first": clicks.key_by(column).reduce(lambda one, other: other).uid("first")}

        found = findings_of(SimpleNamespace(streams=streams))
        return [(one.severity, one.check) for one in found if one.check not in ("configuration", "program")]

    assert keyed_by("user", JsonLinesFormat.for_row_type(row)) == []
    assert keyed_by("usr", JsonLinesFormat.for_row_type(row)) == [(Severity.ERROR, "graph")]
    parquet = ParquetColumnarRowInputFormat()
    assert keyed_by("usr", parquet, FileSource.for_bulk_file_format) == [(Severity.NOTE, "types")], "Spark has to look"


def test_a_sink_that_keeps_no_state_needs_no_uid():
    def streams(environment):
        numbers = environment.from_collection([1], Types.LONG()).uid("numbers")
        numbers.sink_to(HttpSink.builder().set_url("http://host/").build())
        once = SqlSink.builder().set_url("sqlite:///a.db").set_table("t").set_columns("n")
        numbers.sink_to(once.build()).name("committing")
        return {}

    found = findings_of(SimpleNamespace(streams=streams))
    assert [one.message.split(" keeps")[0] for one in found if "no uid" in one.message] == ["The operator 'committing'"]
