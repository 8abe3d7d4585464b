"""From files to files, exactly once: balances of accounts, as lines and as Parquet."""

from __future__ import annotations

from pystate.connectors.project_template import ProjectTemplate

_JOB = '''
"""Keeps the balance of each account, from files to files, exactly once.

    pystate run {module}.py                        watch the folder input, until the job is stopped or cancelled
    pystate run {module}.py input output --once    read what is there, and end

A line of the files is an account and an amount: alice 12.50. What the job writes appears when a checkpoint is complete, and
once, however often the job fails: lines of JSON in output/lines, and Parquet files in output/parquet.
"""

import argparse
import json

from pystate.common import Duration, Encoder, Row, Types
from pystate.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment, ValueStateDescriptor
from pystate.datastream.connectors.file_system import FileSink, FileSource, OutputFileConfig, RollingPolicy, StreamFormat
from pystate.datastream.formats.parquet import ParquetBulkWriters

BALANCE = Types.ROW_NAMED(["account", "bookings", "cents"], [Types.STRING(), Types.LONG(), Types.LONG()])


def booking(line):
    """Return (account, cents) of a line."""
    account, amount = line.split()
    return account, round(float(amount) * 100)


class Balance(KeyedProcessFunction):
    """Emits the balance of an account after each booking."""

    def open(self, runtime_context: RuntimeContext):
        self.bookings = runtime_context.get_state(ValueStateDescriptor("bookings", Types.LONG()))
        self.cents = runtime_context.get_state(ValueStateDescriptor("cents", Types.LONG()))

    def process_element(self, value, ctx):
        account, cents = value
        bookings, balance = (self.bookings.value() or 0) + 1, (self.cents.value() or 0) + cents
        self.bookings.update(bookings)
        self.cents.update(balance)
        yield Row(account=account, bookings=bookings, cents=balance)


def lines_sink(folder):
    files = OutputFileConfig.builder().with_part_prefix("balances").with_part_suffix(".json").build()
    return (
        FileSink.for_row_format(folder, Encoder.simple_string_encoder())
        .with_output_file_config(files)
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )


def parquet_sink(folder):
    files = OutputFileConfig.builder().with_part_prefix("balances").with_part_suffix(".parquet").build()
    return FileSink.for_bulk_format(folder, ParquetBulkWriters.for_row_type(BALANCE)).with_output_file_config(files).build()


def balances(lines):
    """Return the balances of a stream of lines."""
    return (
        lines.filter(str.strip)
        .map(booking, output_type=Types.TUPLE([Types.STRING(), Types.LONG()]))
        .key_by(lambda value: value[0], key_type=Types.STRING())
        .process(Balance(), output_type=BALANCE)
        .name("balance")
        .uid("balance")  # the state is found by it in the next version of the program: keep it, and those of the sinks
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", default="input")
    parser.add_argument("output", nargs="?", default="output")
    parser.add_argument("--once", action="store_true", help="end when everything is read")
    arguments = parser.parse_args()

    env = StreamExecutionEnvironment.get_execution_environment()
    files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), arguments.folder)
    if not arguments.once:
        files = files.monitor_continuously(Duration.of_seconds(1))
    stream = balances(env.from_source(files.build(), None, "bookings").uid("bookings"))
    lines = stream.map(lambda row: json.dumps(row.as_dict()), output_type=Types.STRING())
    lines.sink_to(lines_sink(f"{arguments.output}/lines")).name("lines").uid("lines")
    stream.sink_to(parquet_sink(f"{arguments.output}/parquet")).name("parquet").uid("parquet")
    env.execute("{name}")


if __name__ == "__main__":
    main()
'''

_TEST = '''
"""Tests of the job's function and of its sink, without Spark: python -m pytest"""

from pystate.common import Row, Types
from pystate.testing import ProcessFunctionTestHarnesses, SinkTestHarness

from {module} import Balance, booking, lines_sink


def test_each_account_has_a_balance_of_its_own():
    balance = ProcessFunctionTestHarnesses.for_keyed_process_function(Balance(), lambda value: value[0], Types.STRING())

    balance.process_elements([booking(line) for line in ("alice 12.50", "bob 1.00", "alice -2.50")])

    assert balance.extract_output() == [
        Row(account="alice", bookings=1, cents=1250),
        Row(account="bob", bookings=1, cents=100),
        Row(account="alice", bookings=2, cents=1000),
    ]


def test_lines_appear_when_their_checkpoint_is_complete(tmp_path):
    def visible():
        files = [path for path in tmp_path.rglob("*") if path.is_file() and not path.name.startswith(".")]
        return [line for path in files for line in path.read_text().splitlines()]

    with SinkTestHarness(lines_sink(str(tmp_path)), input_type=Types.STRING()) as sink:
        sink.open()
        sink.process_elements(["one", "two"])
        sink.snapshot(1)
        assert visible() == []
        sink.notify_of_completed_checkpoint(1)
        assert visible() == ["one", "two"]
'''

_INPUT_0 = """
alice 12.50
bob 1.00
alice -2.50
carol 99.90
bob 7.25
"""

TEMPLATE = ProjectTemplate(
    about="keeps the balance of each account in the bookings of `input`, and writes lines and Parquet files below `output`",
    job=_JOB,
    test=_TEST,
    files={"input/bookings.txt": _INPUT_0},
    commands=(
        ("pystate run {module}.py input output --once", "read what is there, and end"),
        ("pystate run -d {module}.py", "watch the folder"),
    ),
    first_run="pystate run {module}.py input output --once",
)
