"""The life of a function: order of calls, operator state, raw state, listeners, what a rollback can't undo."""

from __future__ import annotations

import functools
import pickle

import pytest

from pystate.common import Types
from pystate.common.errors import JobExecutionError, StateError
from pystate.core.api.checkpointed import CheckpointedFunction, CheckpointListener, ListCheckpointed
from pystate.core.api.functions import FilterFunction, KeyedProcessFunction, MapFunction, SinkFunction
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from pystate.runtime.plan.chain import needs_slot
from pystate.testing import KeyedOneInputOperatorTestHarness, OneInputOperatorTestHarness, OperatorTestHarness

SEEN = ListStateDescriptor("seen", Types.STRING())
EVERYWHERE = ListStateDescriptor("everywhere", Types.STRING())


class Recorder(MapFunction, CheckpointedFunction, CheckpointListener):
    """Tells every call; keeps what it saw in a field, and in state at each snapshot."""

    def __init__(self):
        self.calls = []
        self.seen = []
        self.fail_at = None

    def initialize_state(self, context):
        self.calls.append(("initialize_state", context.is_restored(), context.get_restored_checkpoint_id()))
        store = context.get_operator_state_store()
        self.state = store.get_list_state(SEEN)
        self.union = store.get_union_list_state(EVERYWHERE)
        self.seen = list(self.state.get())

    def open(self, runtime_context):
        self.calls.append(("open", runtime_context.get_index_of_this_subtask()))

    def map(self, value):
        self.calls.append(("map", value))
        self.seen.append(value)
        return value.upper()

    def snapshot_state(self, context):
        self.calls.append(("snapshot_state", context.get_checkpoint_id(), context.get_checkpoint_timestamp()))
        self.state.update(self.seen)
        self.union.update([f"{len(self.seen)} elements"])
        if context.get_checkpoint_id() == self.fail_at:
            message = "no snapshot today"
            raise ValueError(message)

    def notify_checkpoint_complete(self, checkpoint_id):
        self.calls.append(("complete", checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id):
        self.calls.append(("aborted", checkpoint_id))

    def close(self):
        self.calls.append(("close",))


def test_the_calls_of_a_life_come_in_order():
    function = Recorder()
    with OneInputOperatorTestHarness(function, subtask_index=1, parallelism=2) as harness:
        harness.open()
        harness.process_element("a")
        harness.snapshot(7, timestamp=1234)
        harness.notify_of_completed_checkpoint(7)
        harness.snapshot(8)
        harness.notify_of_aborted_checkpoint(8)
        assert harness.extract_output() == ["A"]
    assert function.calls == [
        ("initialize_state", False, None),
        ("open", 1),
        ("map", "a"),
        ("snapshot_state", 7, 1234),
        ("complete", 7),
        ("snapshot_state", 8, 0),
        ("aborted", 8),
        ("close",),
    ]


def test_a_restored_function_finds_its_state_and_the_checkpoints_number():
    with OneInputOperatorTestHarness(Recorder()) as harness:
        harness.open()
        harness.process_elements(["a", "b"])
        snapshot = harness.snapshot(7)
        harness.process_element("after the snapshot")
    function = Recorder()
    with OneInputOperatorTestHarness(function) as harness:
        harness.initialize_state(snapshot)
        harness.open()
        assert function.calls == [("initialize_state", True, 7), ("open", 0)]
        assert function.seen == ["a", "b"]
        assert function.union.get() == ["2 elements"]


@pytest.mark.parametrize("parallelism", [1, 2, 3, 5])
def test_nothing_is_lost_or_doubled_at_another_parallelism(parallelism):
    snapshots = []
    for index in range(2):
        with OneInputOperatorTestHarness(Recorder(), parallelism=2, subtask_index=index) as harness:
            harness.open()
            harness.process_elements([f"{index}-{i}" for i in range(4 - index)])
            snapshots.append(harness.snapshot(1))
    seen, unions = [], []
    for index, share in enumerate(OperatorTestHarness.repartition(snapshots, 2, parallelism, 128)):
        function = Recorder()
        with OneInputOperatorTestHarness(function, parallelism=parallelism, subtask_index=index) as harness:
            harness.initialize_state(share)
            harness.open()
            seen.append(function.seen)
            unions.append(function.union.get())
    assert sorted(element for mine in seen for element in mine) == sorted(["0-0", "0-1", "0-2", "0-3", "1-0", "1-1", "1-2"])
    assert unions == [["4 elements", "3 elements"]] * parallelism
    if parallelism != 2:
        assert max(map(len, seen)) - min(map(len, seen)) <= 1
    else:
        assert seen[0] == ["0-0", "0-1", "0-2", "0-3"]


def test_a_snapshot_that_fails_leaves_the_state_as_it_was_and_the_next_one_is_whole():
    function = Recorder()
    with OneInputOperatorTestHarness(function) as harness:
        harness.open()
        harness.process_element("a")
        harness.snapshot(1)
        function.fail_at = 2
        harness.process_element("b")
        with pytest.raises(ValueError, match="no snapshot today"):
            harness.snapshot(2)
        assert (function.state.get(), function.union.get()) == (["a"], ["1 elements"])
        harness.process_element("c")
        snapshot = harness.snapshot(3)
    again = Recorder()
    with OneInputOperatorTestHarness(again) as harness:
        harness.initialize_state(snapshot)
        harness.open()
        assert again.seen == ["a", "b", "c"]


class Parts(FilterFunction, ListCheckpointed):
    """Keeps numbers apart by parity, in Flink's older style."""

    def __init__(self):
        self.even, self.odd = [], []

    def filter(self, value):
        (self.odd if value % 2 else self.even).append(value)
        return True

    def snapshot_state(self, checkpoint_id, timestamp):
        return [("even", self.even), ("odd", self.odd)]

    def restore_state(self, state):
        for parity, numbers in state:
            getattr(self, parity).extend(numbers)


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_the_parts_of_a_list_checkpointed_function_move_alone(parallelism):
    with OneInputOperatorTestHarness(Parts()) as harness:
        harness.open()
        harness.process_elements(range(5))
        snapshots = [harness.snapshot(1)]
    found = []
    for index, share in enumerate(OperatorTestHarness.repartition(snapshots, 1, parallelism, 128)):
        function = Parts()
        with OneInputOperatorTestHarness(function, parallelism=parallelism, subtask_index=index) as harness:
            harness.initialize_state(share)
            harness.open()
            found.append((function.even, function.odd))
    assert found[0] == ([0, 2, 4], [1, 3] if parallelism == 1 else [])
    if parallelism > 1:
        assert found[1:] == [([], [1, 3]), ([], [])][: parallelism - 1]


class RestoreCounter(Parts):
    restored = 0

    def restore_state(self, state):
        self.restored += 1


def test_restore_state_is_called_only_when_the_job_is_restored():
    function = RestoreCounter()
    with OneInputOperatorTestHarness(function) as harness:
        harness.open()
        snapshot = harness.snapshot(1)
    assert function.restored == 0
    with OneInputOperatorTestHarness(function) as harness:
        harness.initialize_state(snapshot)
        harness.open()
    assert function.restored == 1


class Callback(CheckpointedFunction):
    """A plain object; the stream is given its method."""

    def __init__(self):
        self.total = 0

    def add(self, value):
        self.total += value
        return self.total

    def snapshot_state(self, context):
        self.state.update([self.total])

    def initialize_state(self, context):
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("total", Types.LONG()))
        self.total = sum(self.state.get())


@pytest.mark.parametrize(
    "given", [lambda o: o.add, lambda o: functools.partial(o.add), lambda o: functools.wraps(o.add)(lambda v: o.add(v))]
)
def test_the_object_after_a_method_keeps_its_state(given):
    with OneInputOperatorTestHarness(given(Callback()), kind=OperatorKind.MAP) as harness:
        harness.open()
        harness.process_elements([1, 2])
        snapshot = harness.snapshot(1)
    assert needs_slot(given(Callback()))
    with OneInputOperatorTestHarness(given(Callback()), kind=OperatorKind.MAP) as harness:
        harness.initialize_state(snapshot)
        harness.open()
        harness.process_element(10)
        assert harness.extract_output() == [13]


def test_plain_functions_need_no_slot_and_those_that_keep_state_do():
    assert not needs_slot(len)
    assert not needs_slot("".join)
    assert not needs_slot(Callback)
    assert needs_slot(Callback())
    assert needs_slot(Collect([]))


class Collect(SinkFunction):
    def __init__(self, taken):
        self.taken = taken

    def invoke(self, value, context):
        self.taken.append((context.current_processing_time(), value))


def test_a_sink_gets_each_element_with_the_time():
    taken = []
    with OneInputOperatorTestHarness(Collect(taken)) as harness:
        harness.open()
        harness.set_processing_time(5)
        harness.process_element("a")
        harness.set_processing_time(6)
        harness.process_element("b")
        assert harness.extract_output() == []
    assert taken == [(5, "a"), (6, "b")]


@pytest.mark.parametrize("function", [Recorder(), Parts(), Collect([])], ids=lambda one: type(one).__name__)
def test_an_epoch_that_a_function_with_fields_has_taken_part_of_can_not_be_rolled_back(function):
    with OneInputOperatorTestHarness(function) as harness:
        harness.open()
        harness.roll_back_epoch()
        harness.process_element("a" if isinstance(function, Recorder) else 1)
        harness.end_epoch()
        harness.roll_back_epoch()
        harness.process_element("b" if isinstance(function, Recorder) else 2)
        with pytest.raises(JobExecutionError, match="go back to its latest checkpoint") as refused:
            harness.roll_back_epoch()
        assert refused.value.where == "uid operator"


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield ctx.get_current_key(), count


@pytest.mark.parametrize("state_backend", ["hashmap", "rocksdb"])
def test_a_function_with_managed_state_only_is_rolled_back_in_place(state_backend):
    harness = KeyedOneInputOperatorTestHarness(Count(), lambda word: word, Types.STRING(), state_backend=state_backend)
    with harness:
        harness.open()
        harness.process_elements(["a", "b", "a"])
        harness.end_epoch()
        harness.process_elements(["a", "c"])
        harness.roll_back_epoch()
        harness.process_element("a")
        assert harness.extract_output() == [("a", 1), ("b", 1), ("a", 2), ("a", 3)]
        harness.end_epoch()
        assert harness.num_keyed_state_entries() == 2


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("state_backend", ["hashmap", "rocksdb"])
def test_keyed_state_moves_between_backends_and_parallelisms(state_backend, parallelism):
    words = [f"w{i}" for i in range(50)]
    snapshots = []
    for index in range(2):
        with KeyedOneInputOperatorTestHarness(Count(), str, Types.STRING(), parallelism=2, subtask_index=index) as harness:
            harness.open()
            harness.process_elements([word for word in words if harness.owns_key(word)])
            snapshots.append(harness.snapshot(1))
    found = []
    for index, share in enumerate(OperatorTestHarness.repartition(snapshots, 2, parallelism, 128)):
        with KeyedOneInputOperatorTestHarness(
            Count(), str, Types.STRING(), parallelism=parallelism, subtask_index=index, state_backend=state_backend
        ) as harness:
            harness.initialize_state(share)
            harness.open()
            harness.process_elements([word for word in words if harness.owns_key(word)])
            found += harness.extract_output()
    assert sorted(found) == sorted((word, 2) for word in words)


class RawCounter(KeyedProcessFunction, CheckpointedFunction):
    """Counts per key group in a dict of its own, and writes that as raw keyed state; a log goes to raw operator state."""

    def __init__(self, codec):
        self.codec = codec
        self.by_group, self.log = {}, []

    def process_element(self, value, ctx):
        group = self.codec(value)
        self.by_group.setdefault(group, []).append(value)
        self.log.append(value)

    def snapshot_state(self, context):
        keyed = context.get_raw_keyed_state_output()
        for group in sorted(self.by_group):
            keyed.start_new_key_group(group).write(pickle.dumps(self.by_group[group]))
        partitions = context.get_raw_operator_state_output()
        for entry in self.log:
            partitions.start_new_partition().write(entry.encode())

    def initialize_state(self, context):
        for group, stream in context.get_raw_keyed_state_inputs():
            self.by_group[group] = pickle.load(stream)
        self.log = [stream.read().decode() for stream in context.get_raw_operator_state_inputs()]


def group_of(word):
    from pystate.core.state.keys.keys import KeyCodec

    codec = KeyCodec(Types.STRING())
    return codec.key_group(codec.internal(word), 128)


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_raw_state_goes_by_key_group_and_by_partition(parallelism):
    words = [f"w{i}" for i in range(30)]
    snapshots = []
    for index in range(2):
        harness = KeyedOneInputOperatorTestHarness(
            RawCounter(group_of), str, Types.STRING(), parallelism=2, subtask_index=index
        )
        with harness:
            harness.open()
            harness.process_elements([word for word in words if harness.owns_key(word)])
            snapshots.append(harness.snapshot(1))
    by_group, logs = {}, []
    for index, share in enumerate(OperatorTestHarness.repartition(snapshots, 2, parallelism, 128)):
        function = RawCounter(group_of)
        with KeyedOneInputOperatorTestHarness(
            function, str, Types.STRING(), parallelism=parallelism, subtask_index=index
        ) as harness:
            harness.initialize_state(share)
            harness.open()
            for group, found in function.by_group.items():
                assert all(harness.owns_key(word) for word in found)
                assert group not in by_group
                by_group[group] = found
            logs.append(function.log)
    assert sorted(word for found in by_group.values() for word in found) == sorted(words)
    assert sorted(word for log in logs for word in log) == sorted(words)
    if parallelism != 2:
        assert max(map(len, logs)) - min(map(len, logs)) <= 1


class RawOnPlainStream(MapFunction, CheckpointedFunction):
    def map(self, value):
        return value

    def initialize_state(self, context):
        self.keyed = context.get_keyed_state_store()

    def snapshot_state(self, context):
        context.get_raw_keyed_state_output()


def test_keyed_state_of_any_kind_is_refused_on_a_stream_without_a_key():
    function = RawOnPlainStream()
    with OneInputOperatorTestHarness(function) as harness:
        harness.open()
        with pytest.raises(StateError, match="without a key"):
            function.keyed.get_state(ValueStateDescriptor("v"))
        with pytest.raises(StateError, match="without a key"):
            harness.snapshot(1)


class WritesWhenTold(MapFunction, CheckpointedFunction, CheckpointListener):
    """Registers state, and writes it in every call of its life."""

    def initialize_state(self, context):
        store = context.get_operator_state_store()
        self.log = store.get_list_state(ListStateDescriptor("log"))
        self.rules = store.get_broadcast_state(MapStateDescriptor("rules"))
        self.log.add("initialize")

    def open(self, runtime_context):
        self.log.add("open")

    def map(self, value):
        self.log.add("map")
        self.rules.put(value, 1)
        return value

    def snapshot_state(self, context):
        self.log.add("snapshot")

    def notify_checkpoint_complete(self, checkpoint_id):
        self.log.add("complete")


def test_what_each_call_writes_is_undone_by_the_rollback_of_later_epochs_alone():
    function = WritesWhenTold()
    with OneInputOperatorTestHarness(function) as harness:
        harness.open()
        harness.process_element(1)
        with pytest.raises(JobExecutionError):
            harness.roll_back_epoch()
        assert (function.log.get(), function.rules.is_empty()) == (["initialize", "open"], True)
        harness.snapshot(1)
        harness.notify_of_completed_checkpoint(1)
        harness.process_element(2)
        with pytest.raises(JobExecutionError):
            harness.roll_back_epoch()
        assert function.log.get() == ["initialize", "open", "snapshot", "complete"]


def test_a_harness_refuses_what_is_not_for_it():
    with OneInputOperatorTestHarness(Recorder()) as harness:
        with pytest.raises(StateError, match="open\\(\\) comes before"):
            harness.process_element("a")
        harness.open()
        snapshot = harness.snapshot(1)
        with pytest.raises(StateError, match="before open"):
            harness.initialize_state(snapshot)
    with OneInputOperatorTestHarness(Recorder(), parallelism=2) as harness:
        with pytest.raises(StateError, match="subtask 0 of 1"):
            harness.initialize_state(snapshot)
        harness.open()
        other = harness.snapshot(2)
    for snapshots, old in (([], 1), ([snapshot, snapshot], 2), ([other, other], 2), ([snapshot], 2)):
        with pytest.raises(StateError):
            OperatorTestHarness.repartition(snapshots, old, 1, 128)
    with pytest.raises(StateError, match="max parallelism"):
        OperatorTestHarness.repartition([snapshot], 1, 2, 64)


def test_a_harness_that_is_open_is_not_opened_again():
    with OneInputOperatorTestHarness(Recorder()) as harness:
        harness.open()
        with pytest.raises(StateError) as refused:
            harness.open()
    assert "ProcessFunctionTestHarnesses" in str(refused.value.hint)
