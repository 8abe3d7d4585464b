"""Records at which functions fail: what a subtask keeps, the file, and the replay."""

from __future__ import annotations

import dataclasses
import json
import sys

import pytest

from pystate.common.errors import StateError, UsageError
from pystate.runtime.job_folder.failing_record import (
    FailingRecord,
    FailingRecordError,
    KeptStep,
    RecordOutcome,
    StepKind,
    keep_failing_record,
    kept_failing_records,
    read_failing_record,
)
from pystate.testing import Program
from pystate.testing.debug_process import replay
from tests.testing.test_program_harness import JOB, request_of

STEPS = [KeptStep(StepKind.ROWS, 7, 0, b"rows"), KeptStep(StepKind.WATERMARK, 8, 1, time=-5)]
ON = {"pystate.debug.keep-failing-records": "2"}


@pytest.fixture
def job(tmp_path):
    path = tmp_path / "counts.py"
    path.write_text(JOB)
    return path


@pytest.fixture
def subtask(job):
    """The operator as a slot of the job runs it, with the option."""
    program = Program(job)
    program._configuration.set_string("pystate.debug.keep-failing-records", "2")
    with program.harness("count") as harness:
        yield harness


def failed(harness, *elements):
    with pytest.raises(ZeroDivisionError):
        for element in elements:
            harness.process(element, 5)
    data = harness._chain.failing_record
    if data is None:
        return None
    # in a harness every operator has one uid
    return dataclasses.replace(FailingRecord.from_bytes(data, "here"), uid="count", operator="means").to_bytes()


def test_nothing_is_kept_by_default(job):
    with Program(job).harness("count") as harness:
        assert failed(harness, ("a", 0)) is None


def test_the_keys_rows_of_the_epoch_and_its_state_before_it(subtask):
    subtask.process(("a", 1))
    subtask.process(("b", 1))
    subtask.end_epoch()

    data = failed(subtask, ("a", 2), ("b", 3), ("a", 4), ("a", 0))

    record = FailingRecord.from_bytes(data, "here")
    assert (record.uid, record.operator, record.subtask, record.whole) == ("count", "means", 0, True)
    assert record.error == "ZeroDivisionError: integer division or modulo by zero"
    assert len(record.steps) == 3, "those of b are not kept"


def replayed(job, tmp_path, data, capsys, **changes):
    path = keep_failing_record(tmp_path, data, 5)
    capsys.readouterr()
    code = replay(request_of(job, failure=str(path), json=True, operator=None, record=None, **changes))
    return code, json.loads(capsys.readouterr().out)


def test_it_fails_again_with_the_state_that_it_had(subtask, job, tmp_path, capsys):
    subtask.process(("a", 1))
    subtask.end_epoch()
    data = failed(subtask, ("a", 2), ("b", 3), ("a", 4), ("a", 0))

    code, said = replayed(job, tmp_path, data, capsys)

    assert code == 1
    assert (said["key"], said["record"], said["timestamp"]) == ("'a'", "('a', 0)", "5")
    assert said["state"][0] == "count = 3", "one of the epoch before, two of this one, and not what the failing call has set"
    assert said["raised"] == "ZeroDivisionError: integer division or modulo by zero"
    assert said["failed"] == f"{said['raised']}, in 'means', subtask 0, attempt 0"


def test_a_mended_function_takes_it(subtask, job, tmp_path, capsys):
    data = failed(subtask, ("a", 2), ("a", 0))
    job.write_text(JOB.replace("100 // value[1]", "100 // (value[1] or 1)"))

    code, said = replayed(job, tmp_path, data, capsys)

    assert code == 0
    assert said["note"].startswith("the operator takes all of its records now")
    assert said["result"] == ["('a', 100, 1, 5)"]


def test_it_is_written_as_a_test(subtask, job, tmp_path, capsys):
    data = failed(subtask, ("a", 2), ("a", 0))
    test = tmp_path / "test_it.py"

    replayed(job, tmp_path, data, capsys, as_test=str(test))

    text = test.read_text()
    assert "{'count': 1}" in text
    names = {"__file__": str(test), "__name__": "test_it"}
    exec(compile(text, str(test), "exec"), names)  # noqa: S102 - it is ours
    with pytest.raises(ZeroDivisionError):
        names["test_count_takes_the_record"]()


def test_a_record_without_a_text_is_no_test(subtask, job, tmp_path, capsys):
    data = failed(subtask, OddPair(("a", 0)))
    with pytest.raises(UsageError, match="doesn't read the record back"):
        replayed(job, tmp_path, data, capsys, as_test=str(tmp_path / "test_it.py"))


class OddPair(tuple):
    __repr__ = object.__repr__


def test_a_large_epoch_is_cut_at_its_beginning(subtask):
    subtask._chain._failing._most_bytes = 2000
    data = failed(subtask, *[("a", number + 1) for number in range(100)], ("a", 0))

    record = FailingRecord.from_bytes(data, "here")
    assert not record.whole
    assert 0 < len(record.steps) < 10
    assert len(data) < 5000


def test_a_batch_that_is_too_large_alone_is_told_instead_of_kept(subtask, job, tmp_path):
    subtask._chain._failing._most_bytes = 100
    data = failed(subtask, ("a", 1), ("a", 0))

    record = FailingRecord.from_bytes(data, "here")
    assert (record.outcome, record.steps, record.whole) == (RecordOutcome.TOO_LARGE, [], False)
    assert record.size > 100
    path = keep_failing_record(tmp_path, data, 5)
    with pytest.raises(UsageError) as raised:
        replay(request_of(job, failure=str(path), json=True, operator=None, record=None))
    assert raised.value.message == (
        "ZeroDivisionError: integer division or modulo by zero, in 'means'. There is nothing to replay: the rows that came "
        f"with it take {record.size:,} bytes, which is more than pystate.debug.failing-record-size."
    )


def test_only_the_latest_are_kept_in_private_files(tmp_path):
    record = FailingRecord("u", "o", 0, 1, 128, 0, 1, "E", None, None, STEPS, whole=True, watermark=5)
    for _ in range(4):
        path = keep_failing_record(tmp_path, record.to_bytes(), 2)

    assert sorted(kept_failing_records(tmp_path)) == [3, 4]
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert read_failing_record(path) == record


def test_files_that_are_not_read(tmp_path):
    record = FailingRecord("u", "o", 0, 1, 128, 0, 1, "E", None, None, STEPS, whole=True, watermark=5)
    data = record.to_bytes()
    for wrong in (data[:-1], data[:50] + b"x" + data[51:], b"", b"XXXX" + data[4:]):
        with pytest.raises(FailingRecordError, match="damaged"):
            FailingRecord.from_bytes(wrong, "here")
    with pytest.raises(FailingRecordError, match="has version 9; this version of pystate knows 2"):
        FailingRecord.from_bytes(data[:4] + b"\0\x09" + data[6:], "here")
    path = keep_failing_record(tmp_path, data, 1)
    path.chmod(0o666)
    with pytest.raises(FailingRecordError, match="could have been written by somebody else"):
        read_failing_record(path)


def test_all_fields_are_in_the_file():
    names = {field.name for field in dataclasses.fields(FailingRecord)}
    assert names == {
        "uid", "operator", "subtask", "parallelism", "max_parallelism", "attempt", "time_ms", "error", "key", "state",
        "steps", "whole", "watermark", "timer", "outcome", "size", "broadcast", "lost",
    }  # fmt: skip


OWN_CLASSES = """
from dataclasses import dataclass

from pystate.common import Types
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.functions import KeyedProcessFunction
from pystate.datastream.state import ValueStateDescriptor


@dataclass
class Order:
    amount: int


@dataclass
class Total:
    count: int = 0


class Add(KeyedProcessFunction):
    def open(self, ctx):
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value, ctx):
        total = self.total.value() or Total()
        assert isinstance(total, Total)
        assert isinstance(value, Order)
        total.count += 1
        self.total.update(total)
        value.amount += 1
        yield 100 // (value.amount - 1), total.count


env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([Order(1)]).key_by(lambda order: "k", key_type=Types.STRING()).process(Add()).uid("add").print()
env.execute("orders")
"""


def test_it_meets_the_programs_classes_and_state_that_no_other_pass_has_changed(tmp_path, capsys):
    job = tmp_path / "orders.py"
    job.write_text(OWN_CLASSES)
    program = Program(job)
    program._configuration.set_string("pystate.debug.keep-failing-records", "2")
    order, main = program.names["Order"], sys.modules["__main__"]
    with program.harness("add") as harness:
        harness.process(order(1))
        harness.end_epoch()
        harness.process(order(2))
        with pytest.raises(ZeroDivisionError):
            harness.process(order(0))
        record = FailingRecord.from_bytes(harness._chain.failing_record, "here")
    assert sys.modules["__main__"] is main

    test = tmp_path / "test_it.py"
    data = dataclasses.replace(record, uid="add", operator="add").to_bytes()
    code, said = replayed(job, tmp_path, data, capsys, as_test=str(test))

    assert (code, said["record"], said["state"]) == (1, "Order(amount=0)", ["total = Total(count=2)"])
    assert said["raised"].startswith("ZeroDivisionError")
    assert "note" not in said
    assert "{'total': Total(count=2)}" in test.read_text(), "what it was before the function changed it in place"
    assert 'program.value("Order(amount=0)")' in test.read_text().replace("'", '"')


def test_harnesses_of_programs_are_closed_in_any_order(tmp_path):
    main = sys.modules["__main__"]
    jobs = []
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text(OWN_CLASSES)
        jobs.append(Program(tmp_path / f"{name}.py"))
    first, second = (program.harness("add") for program in jobs)
    assert sys.modules["__main__"].Order is jobs[1].names["Order"]
    first.close()
    assert sys.modules["__main__"].Order is jobs[1].names["Order"]
    second.close()
    second.close()
    assert sys.modules["__main__"] is main


def kept_of(program, operator, *elements, **settings):
    """Return the record at whose last element an operator of a program fails."""
    for name, value in {**ON, **settings}.items():
        program._configuration.set_string(name, value)
    with program.harness(operator) as harness:
        with pytest.raises(Exception) as raised:  # noqa: PT011 - of the programs below
            for element, number in elements:
                if element is EPOCH_END:
                    harness.end_epoch()
                else:
                    harness.process(element, input_number=number)
            harness.extract_output()
        record = FailingRecord.from_bytes(harness._chain.failing_record, "here")
    return dataclasses.replace(record, uid=operator, operator=operator), raised.value


EPOCH_END = object()

RULES = """
from pystate.common import Types
from pystate.datastream import AsyncDataStream, StreamExecutionEnvironment
from pystate.common import Time
from pystate.datastream.functions import AsyncFunction, KeyedBroadcastProcessFunction
from pystate.datastream.state import MapStateDescriptor

RULES = MapStateDescriptor("rules", Types.STRING(), Types.LIST(Types.LONG()))


class Divide(KeyedBroadcastProcessFunction):
    def process_element(self, value, ctx):
        yield value[1] // ctx.get_broadcast_state(RULES).get("by")[0]

    def process_broadcast_element(self, value, ctx):
        if value < 0:
            raise ValueError("negative")
        ctx.get_broadcast_state(RULES).put("by", [value])


class Ask(AsyncFunction):
    async def async_invoke(self, value):
        return [1 // value[1]]


env = StreamExecutionEnvironment.get_execution_environment()
pairs = env.from_collection([("a", 1)])
rules = env.from_collection([1], type_info=Types.LONG())
keyed = pairs.key_by(lambda pair: pair[0], key_type=Types.STRING())
keyed.connect(rules.broadcast(RULES)).process(Divide()).uid("divide").print()
AsyncDataStream.ordered_wait(pairs, Ask(), Time.seconds(60), 10).uid("ask").print()
env.execute("rules")
"""


@pytest.fixture
def rules(tmp_path):
    path = tmp_path / "rules.py"
    path.write_text(RULES)
    return path


def test_broadcast_state_of_the_epochs_before_is_there_again_and_in_the_test(rules, tmp_path, capsys):
    record, _ = kept_of(Program(rules), "divide", (0, 2), (EPOCH_END, 0), (("a", 1), 1))
    test = tmp_path / "test_it.py"

    code, said = replayed(rules, tmp_path, record.to_bytes(), capsys, as_test=str(test))

    assert (code, said["raised"].partition(":")[0]) == (1, "ZeroDivisionError")
    assert said["broadcast"] == ["rules = {'by': [0]}"]
    assert """put_broadcast_state(program.value("{'rules': {'by': [0]}}"))""" in test.read_text()
    names = {"__file__": str(test), "__name__": "test_it"}
    exec(compile(test.read_text(), str(test), "exec"), names)  # noqa: S102 - it is ours
    with pytest.raises(ZeroDivisionError):
        names["test_divide_takes_the_record"]()


def test_a_broadcast_element_that_fails(rules, tmp_path, capsys):
    record, _ = kept_of(Program(rules), "divide", (3, 2), (EPOCH_END, 0), (("a", 1), 1), (4, 2), (-1, 2))

    code, said = replayed(rules, tmp_path, record.to_bytes(), capsys)

    assert (code, said["raised"], said["record"]) == (1, "ValueError: negative", "-1")
    assert said["broadcast"] == ["rules = {'by': [4]}"]
    with Program(rules).harness("divide") as harness, pytest.raises(StateError, match="there are 'rules'"):
        harness.put_broadcast_state({"nosuch": {}})


def test_an_element_at_which_an_asynchronous_call_fails_later(rules, tmp_path, capsys):
    record, _ = kept_of(Program(rules), "ask", (("a", 1), 1), (("b", 0), 1), (("c", 2), 1))

    code, said = replayed(rules, tmp_path, record.to_bytes(), capsys)

    assert (code, said["record"]) == (1, "('b', 0)")


ODD_VALUES = """
import datetime as dt
from decimal import Decimal as Number

from pystate.common import Types
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.functions import KeyedProcessFunction
from pystate.datastream.state import ValueStateDescriptor


class Odd:
    def __init__(self, number):
        self.number = number

    def __reduce__(self):
        if self.number > 1:
            raise RuntimeError("not this one")
        return Odd, (self.number,)

    def __eq__(self, other):
        raise RuntimeError("never the same")

    __hash__ = None


class Divide(KeyedProcessFunction):
    def open(self, ctx):
        self.state = ctx.get_state(ValueStateDescriptor("state", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value, ctx):
        self.state.update(Odd(1))
        yield Number(1) / value[1]


env = StreamExecutionEnvironment.get_execution_environment()
odd = env.from_collection([("a", Number(1), dt.datetime(2026, 1, 1), 0.5)])
odd.key_by(lambda value: value[0], key_type=Types.STRING()).process(Divide()).uid("divide").print()
env.execute("odd")
"""


def test_decimals_times_and_nan_are_read_back_whatever_the_program_imports(tmp_path, capsys):
    job = tmp_path / "odd.py"
    job.write_text(ODD_VALUES)
    program, test = Program(job), tmp_path / "test_it.py"
    names = program.names
    element = ("a", names["Number"](0), names["dt"].datetime(2026, 11, 30, 1), float("nan"))
    record, _ = kept_of(program, "divide", (element, 1))

    replayed(job, tmp_path, record.to_bytes(), capsys, as_test=str(test))

    assert "('a', Decimal('0'), datetime.datetime(2026, 11, 30, 1, 0), nan)" in test.read_text()
    names = {"__file__": str(test), "__name__": "test_it"}
    exec(compile(test.read_text(), str(test), "exec"), names)  # noqa: S102 - it is ours
    with pytest.raises(ArithmeticError):
        names["test_divide_takes_the_record"]()


def test_state_without_a_text_is_in_the_test_as_bytes(tmp_path, capsys):
    job = tmp_path / "odd.py"
    job.write_text(ODD_VALUES)
    program, test = Program(job), tmp_path / "test_it.py"
    number = program.names["Number"]
    record, _ = kept_of(program, "divide", (("a", number(1)), 1), (EPOCH_END, 0), (("a", number(0)), 1))

    code, said = replayed(job, tmp_path, record.to_bytes(), capsys, as_test=str(test))

    assert said["state"][0].startswith("state = <")
    assert "STATE = b85decode(" in test.read_text()
    names = {"__file__": str(test), "__name__": "test_it"}
    exec(compile(test.read_text(), str(test), "exec"), names)  # noqa: S102 - it is ours
    with pytest.raises(ArithmeticError):
        names["test_divide_takes_the_record"]()


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (
            "state_of_keys",
            "could not be kept, of RuntimeError: odd values: -s takes it from a snapshot",
        ),
        ("_to_bytes", None),
    ],
)
def test_a_job_fails_of_what_its_function_has_raised_whatever_can_not_be_kept(
    job, tmp_path, monkeypatch, capsys, broken, says
):
    def wrong(*_):
        raise RuntimeError("odd values")

    with monkeypatch.context() as patched:
        patched.setattr(f"pystate.runtime.slot.failing_records.{broken}", wrong)
        record, error = kept_of(Program(job), "count", (("a", 0), 1))

    assert type(error) is ZeroDivisionError
    if says is None:
        assert record.outcome is RecordOutcome.UNREADABLE
        with pytest.raises(UsageError, match="what the function was called with can't be read: RuntimeError: odd values"):
            replayed(job, tmp_path, record.to_bytes(), capsys)
    else:
        code, said = replayed(job, tmp_path, record.to_bytes(), capsys)
        assert (code, said["note"]) == (1, f"the state of the key {says}")
