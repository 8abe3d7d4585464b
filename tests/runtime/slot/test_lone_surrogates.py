"""Texts with half of a surrogate pair: kept exactly where they can be, the author's error where not, never a stuck job."""

import socket

import pytest

from pystate.common import Row, Types
from pystate.common.errors import JobGraphError, RecordError, StateError
from pystate.common.processes.control import receive_message, send_message
from pystate.datastream import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from pystate.runtime.plan.task_output import OutputKind, OutputSpec
from pystate.runtime.slot.output_buffer import OutputBuffer
from pystate.testing import KeyedOneInputOperatorTestHarness
from tests.runtime.slot.harness import SlotHarness

LONE = "a\ud800b"


class Keep(KeyedProcessFunction):
    """Gives what it was given before with this key."""

    def __init__(self, value_type):
        self.value_type = value_type

    def open(self, runtime_context):
        self.value = runtime_context.get_state(ValueStateDescriptor("value", self.value_type))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", self.value_type, self.value_type))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", self.value_type))

    def process_element(self, value, ctx):
        yield ctx.get_current_key(), self.value.value(), list(self.map.items()), self.list.get()
        self.value.update(value)
        self.map.put(value, value)
        self.list.add(value)


def harness(key, key_type, value_type, backend):
    function = Keep(value_type)
    return KeyedOneInputOperatorTestHarness(function, lambda _: key, key_type, parallelism=1, state_backend=backend)


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("value_type", [None, Types.STRING()])
@pytest.mark.parametrize(
    ("key", "key_type"), [(LONE, None), ((LONE,), None), ((LONE,), Types.TUPLE([Types.STRING()])), (Row(f=LONE), None)]
)
def test_keys_and_values_are_kept_exactly_over_a_restore(key, key_type, value_type, backend):
    with harness(key, key_type, value_type, backend) as first:
        first.open()
        first.process_element(LONE)
        snapshot = first.snapshot(1)
    with harness(key, key_type, value_type, backend) as second:
        second.initialize_state(snapshot)
        second.open()
        second.process_element("x")

        assert second.extract_output() == [(key, LONE, [(LONE, LONE)], [LONE])]


def test_a_key_that_travels_as_a_text_column_is_the_authors_error():
    with harness(LONE, Types.STRING(), None, "hashmap") as one:
        one.open()
        with pytest.raises(RecordError, match=r"'a\\ud800b' can't be sent as text: '\\ud800' is half of") as error:
            one.process_element("x")
    assert "untyped elements hold any" in error.value.hint


@pytest.mark.parametrize(
    ("type_info", "element"),
    [
        (Types.STRING(), LONE),
        (Types.ROW([Types.STRING()]), Row(LONE)),
        (Types.LIST(Types.STRING()), ["x", LONE]),
        (Types.MAP(Types.STRING(), Types.STRING()), {"x": LONE}),
    ],
)
def test_an_element_that_travels_as_text_is_the_authors_error_and_names_the_step(type_info, element):
    buffer = OutputBuffer(OutputSpec(0, OutputKind.EDGE, "to counts", type_info), lambda spec, batch: None)
    buffer.append(element)

    with pytest.raises(RecordError, match="half of a surrogate pair") as error:
        buffer.flush()
    assert error.value.where == "to counts"


class Half(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield "\ud800", 1


def test_the_error_names_the_operator_and_the_stream(tmp_path):
    slot = SlotHarness(tmp_path, Half())
    try:
        with pytest.raises(RecordError):
            slot.run_epoch(0, ["a"])
    finally:
        slot.close()

    ((error, _),) = slot.coordinator.failures
    assert error.where == "count (uid count), subtask 0, out"


def test_an_untyped_element_travels_and_a_printed_one_is_shown():
    batches = []
    for kind in (OutputKind.EDGE, OutputKind.PRINT):
        buffer = OutputBuffer(OutputSpec(0, kind, "out"), lambda spec, batch: batches.append(batch))
        buffer.append(LONE)
        buffer.flush()

    assert batches[0].num_rows == 1
    assert batches[1].column(0).to_pylist() == ["a\\ud800b"]


def stream():
    return StreamExecutionEnvironment().from_collection([1]).map(lambda value: value)


@pytest.mark.parametrize(
    ("declare", "kind", "what"),
    [
        (lambda: ValueStateDescriptor(LONE), StateError, "The name of a state"),
        (lambda: MapStateDescriptor(LONE), StateError, "The name of a state"),
        (lambda: Types.ROW_NAMED([LONE], [Types.LONG()]), ValueError, "The name of a field"),
        (lambda: stream().uid(LONE), JobGraphError, "A uid"),
        (lambda: stream().print().uid(LONE), JobGraphError, "A uid"),
        (lambda: stream().name(LONE), JobGraphError, "The name of a step"),
        (lambda: stream().print().name(LONE), JobGraphError, "The name of a step"),
    ],
)
def test_names_are_refused_where_they_are_given(declare, kind, what):
    with pytest.raises(kind, match=rf"^{what} can't be 'a\\ud800b'"):
        declare()


def test_the_name_of_a_job_is_refused_before_it_runs():
    env = StreamExecutionEnvironment()
    env.from_collection([1]).print()

    with pytest.raises(JobGraphError, match="^The name of a job can't be"):
        env.execute(LONE)


def test_what_an_exception_says_reaches_the_driver():
    left, right = socket.socketpair()
    with Wire(left) as sender, Wire(right) as receiver:
        send_message(sender, {"error": LONE})
        assert receive_message(receiver) == {"error": LONE}


class Wire:
    """A peer that keeps what is sent in one piece."""

    def __init__(self, end):
        self.end = end

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end.close()

    def send_bytes(self, data):
        self.end.sendall(data)

    def recv_bytes(self):
        return self.end.recv(1 << 16)
