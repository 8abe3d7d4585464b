"""From files to Delta tables, exactly once: bookings that are appended, and balances that replace each other."""

from __future__ import annotations

from pystate.common.distribution import pip_install
from pystate.connectors.project_template import ProjectTemplate

_JOB = '''
"""Keeps the balance of each account in a Delta table, beside one of all bookings, exactly once.

    pystate run {module}.py                        watch the folder input, until the job is stopped or cancelled
    pystate run {module}.py input tables --once    read what is there, and end
    python show.py                                 what is in the tables

A line of the files is an account and an amount: alice 12.50. Each complete checkpoint is one version of each table:
tables/bookings grows, and in tables/balances each account has one row.
"""

import argparse

from pystate.common import Duration, Row, Types
from pystate.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment, ValueStateDescriptor
from pystate.datastream.connectors.delta import DeltaSink
from pystate.datastream.connectors.file_system import FileSource, StreamFormat

BOOKING = Types.ROW_NAMED(["account", "cents"], [Types.STRING(), Types.LONG()])
BALANCE = Types.ROW_NAMED(["account", "bookings", "cents"], [Types.STRING(), Types.LONG(), Types.LONG()])


def booking(line):
    """Return the row of a line."""
    account, amount = line.split()
    return Row(account=account, cents=round(float(amount) * 100))


class Balance(KeyedProcessFunction):
    """Emits the balance of an account after each booking."""

    def open(self, runtime_context: RuntimeContext):
        self.bookings = runtime_context.get_state(ValueStateDescriptor("bookings", Types.LONG()))
        self.cents = runtime_context.get_state(ValueStateDescriptor("cents", Types.LONG()))

    def process_element(self, value, ctx):
        bookings, balance = (self.bookings.value() or 0) + 1, (self.cents.value() or 0) + value.cents
        self.bookings.update(bookings)
        self.cents.update(balance)
        yield Row(account=value.account, bookings=bookings, cents=balance)


def bookings_sink(folder):
    """Return a sink that appends bookings."""
    return DeltaSink.for_table(folder).with_row_type(BOOKING).build()


def balances_sink(folder):
    """Return a sink whose rows replace those of their account."""
    return DeltaSink.for_table(folder).with_row_type(BALANCE).with_upsert_by("account").build()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", default="input")
    parser.add_argument("tables", nargs="?", default="tables")
    parser.add_argument("--once", action="store_true", help="end when everything is read")
    arguments = parser.parse_args()

    env = StreamExecutionEnvironment.get_execution_environment()
    files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), arguments.folder)
    if not arguments.once:
        files = files.monitor_continuously(Duration.of_seconds(1))
    lines = env.from_source(files.build(), None, "lines").uid("lines")
    bookings = lines.filter(str.strip).map(booking, output_type=BOOKING)
    balances = (
        bookings.key_by(lambda row: row.account, key_type=Types.STRING())
        .process(Balance(), output_type=BALANCE)
        .name("balance")
        .uid("balance")  # the state is found by it in the next version of the program: keep it, and those of the sinks
    )
    bookings.sink_to(bookings_sink(f"{arguments.tables}/bookings")).name("bookings").uid("bookings")
    balances.sink_to(balances_sink(f"{arguments.tables}/balances")).name("balances").uid("balances")
    env.execute("{name}")


if __name__ == "__main__":
    main()
'''

_TEST = '''
"""Tests of the job's function and of its tables, without Spark: python -m pytest"""

from deltalake import DeltaTable

from pystate.common import Row, Types
from pystate.testing import ProcessFunctionTestHarnesses, SinkTestHarness

from {module} import BALANCE, Balance, balances_sink, booking


def test_each_account_has_a_balance_of_its_own():
    balance = ProcessFunctionTestHarnesses.for_keyed_process_function(Balance(), lambda row: row.account, Types.STRING())

    balance.process_elements([booking(line) for line in ("alice 12.50", "bob 1.00", "alice -2.50")])

    assert balance.extract_output() == [
        Row(account="alice", bookings=1, cents=1250),
        Row(account="bob", bookings=1, cents=100),
        Row(account="alice", bookings=2, cents=1000),
    ]


def test_an_account_has_one_row_when_its_checkpoint_is_complete(tmp_path):
    def visible():
        return DeltaTable(tmp_path / "balances").to_pyarrow_table().to_pylist()

    with SinkTestHarness(balances_sink(str(tmp_path / "balances")), input_type=BALANCE) as sink:
        sink.open()
        for checkpoint, cents in enumerate((1250, 1000), 1):
            sink.process_element(Row(account="alice", bookings=checkpoint, cents=cents))
            sink.snapshot(checkpoint)
            assert len(visible()) == checkpoint - 1
            sink.notify_of_completed_checkpoint(checkpoint)
            assert visible() == [{"account": "alice", "bookings": checkpoint, "cents": cents}]
'''

_SHOW = '''
"""Prints what is in the tables, and their versions: python show.py [tables]"""

import sys

from deltalake import DeltaTable

for part in ("bookings", "balances"):
    table = DeltaTable(f"{sys.argv[1] if len(sys.argv) > 1 else 'tables'}/{part}")
    print(f"{part}, version {table.version()}")
    for row in table.to_pyarrow_table().to_pylist():
        print("   ", *row.values())
'''

_INPUT_0 = """
alice 12.50
bob 1.00
alice -2.50
carol 99.90
bob 7.25
"""

TEMPLATE = ProjectTemplate(
    about="keeps the balance of each account in the bookings of `input`, in Delta tables below `tables`",
    job=_JOB,
    test=_TEST,
    files={"input/bookings.txt": _INPUT_0, "show.py": _SHOW},
    commands=(
        (pip_install("delta"), "what reads and writes the tables"),
        ("pystate run {module}.py input tables --once", "read what is there, and end"),
        ("pystate run -d {module}.py", "watch the folder"),
        ("python show.py", "what is in the tables"),
    ),
    first_run=f"{pip_install('delta')}\npystate run {{module}}.py input tables --once",
)
