import pyarrow as pa
import pytest

from pystate.common import Types
from pystate.core.api.transformations import Partitioning
from pystate.core.records.codec import KEY_GROUP_FIELD
from pystate.runtime.engines.micro_batch.slot.protocol import receive_batches
from pystate.runtime.engines.micro_batch.spark.exchange import InputSender, forward_rows
from pystate.runtime.engines.micro_batch.spark.level import PORT_FIELD, LevelWriter, levels_of
from pystate.runtime.plan.task_output import Routing
from tests.runtime.engines.micro_batch.slot.test_protocol import Wire
from tests.runtime.plan.programs import connected, keyed, partitioned, planned, printed, process, source, united

PAIRS = Types.TUPLE([Types.STRING(), Types.LONG()])


def rows(**columns):
    return pa.RecordBatch.from_pydict(columns)


def two_keys():
    """One source whose elements are counted by two keys: one level of two tasks."""
    root = source(output_type=PAIRS)
    printed(process(keyed(root, selector=len, key_type=Types.STRING()), uid="a"))
    printed(process(keyed(root, selector=str), uid="b", parallelism=3), parallelism=3)
    return planned([root])


def test_partitions_count_through_the_subtasks_of_all_tasks():
    plan = two_keys()
    (level,) = levels_of(plan)
    first, second = plan.tasks
    assert level.partitions == 5
    owners = [level.owner_of(partition) for partition in range(5)]
    assert [(task.uid, subtask) for task, subtask in owners] == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2)]
    assert [level.first_partition(task) + subtask for task, subtask in owners] == list(range(5))
    assert (level.first_partition(first), level.first_partition(second)) == (0, 2)
    with pytest.raises(ValueError, match="no partition"):
        level.owner_of(5)


def test_rows_come_out_as_they_went_in_port_by_port():
    plan = two_keys()
    (level,) = levels_of(plan)
    to_a, to_b = plan.source_edges()
    keyed_rows = rows(f0=["x", "y"], f1=[1, 2], __pystate_key=["k1", "k2"])
    wrapped = level.wrap(level.index_of(to_a), keyed_rows)
    assert wrapped.schema.names == level.schema().names
    assert wrapped.column(PORT_FIELD).to_pylist() == [0, 0]
    other = level.wrap(level.index_of(to_b), rows(f0=["z"], f1=[3], __pystate_key=[b"k3"]))
    mixed = pa.Table.from_batches([wrapped, other.cast(wrapped.schema)]).combine_chunks().to_batches()[0]
    mixed = mixed.append_column(KEY_GROUP_FIELD, pa.array([7, 9, 8], pa.int32()))
    assert [(index, batch.to_pydict()) for index, batch in level.unwrap(mixed)] == [
        (0, {**keyed_rows.to_pydict(), KEY_GROUP_FIELD: [7, 9]}),
        (1, {"f0": ["z"], "f1": [3], "__pystate_key": [b"k3"], KEY_GROUP_FIELD: [8]}),
    ]


def test_in_batch_mode_the_elements_of_a_key_stay_in_their_order_over_both_inputs():
    first, second = source("first", output_type=PAIRS), source("second", output_type=PAIRS)
    by = {"selector": str, "key_type": Types.STRING()}
    printed(connected(keyed(first, **by), keyed(second, **by), uid="co"))
    plan = planned([first, second])
    plan.batch = True
    (level,) = levels_of(plan)
    wrapped = [
        level.wrap(level.index_of(edge), rows(f0=[edge.name], f1=[number], __pystate_key=["k"]))
        for number, edge in enumerate([*plan.source_edges(), *plan.source_edges()[1:], *plan.source_edges()[:1]])
    ]
    mixed = pa.Table.from_batches([batch.cast(level.schema()) for batch in wrapped]).combine_chunks().to_batches()[0]
    mixed = mixed.append_column(KEY_GROUP_FIELD, pa.array([7] * 4, pa.int32()))

    assert [(index, batch.column("f1").to_pylist()) for index, batch in level.unwrap(mixed)] == [
        (0, [0]),
        (1, [1, 2]),
        (0, [3]),
    ]


def test_a_level_with_one_way_in_takes_rows_as_they_are():
    root = source(output_type=PAIRS)
    printed(process(keyed(root, selector=len), uid="a"))
    plan = planned([root])
    (level,) = levels_of(plan)
    (edge,) = plan.source_edges()
    batch = rows(f0=["x"], f1=[1], __pystate_key=[b"k"])
    assert level.wrap(0, batch) is batch
    assert list(level.unwrap(batch)) == [(0, batch)]
    assert level.schema() == edge.schema()


def test_streams_of_a_union_share_one_way_in():
    left, right = source("left", PAIRS), source("right", PAIRS)
    printed(process(keyed(united(left, right), selector=len), uid="count"))
    plan = planned([left, right])
    (level,) = levels_of(plan)
    assert level.is_single
    assert [level.index_of(edge) for edge in plan.source_edges()] == [0, 0]


def diamond():
    """A source that is counted, and united with the counts before a second count."""
    root = source(output_type=PAIRS)
    counted = process(keyed(root, selector=len), uid="first", output_type=PAIRS)
    printed(process(keyed(united(root, counted), selector=str), uid="second"))
    return planned([root])


def test_rows_for_a_later_level_pass_through_without_touching_a_slot():
    plan = diamond()
    first, second = levels_of(plan)
    to_first, to_second = sorted(plan.source_edges(), key=lambda edge: edge.target)
    assert [port.task.uid for port in first.passing] == ["second"]
    assert second.is_single
    own = first.wrap(first.index_of(to_first), rows(f0=["x"], f1=[1], __pystate_key=[b"k"]))
    passing = [
        first.wrap(first.index_of(to_second), rows(f0=[text], f1=[n], __pystate_key=[b"p"])) for n, text in enumerate("yz")
    ]
    batches = [
        batch.cast(own.schema).append_column(KEY_GROUP_FIELD, pa.array([group], pa.int32()))
        for batch, group in zip([passing[0], own, passing[1]], [None, 5, None], strict=True)
    ]
    sent = []
    passed = list(forward_rows(first, second, batches, lambda index, batch: sent.append((index, batch.to_pydict()))))
    assert sent == [(0, {"f0": ["x"], "f1": [1], "__pystate_key": [b"k"], KEY_GROUP_FIELD: [5]})]
    assert [batch.to_pydict() for batch in passed] == [
        {"f0": ["y"], "f1": [0], "__pystate_key": [b"p"]},
        {"f0": ["z"], "f1": [1], "__pystate_key": [b"p"]},
    ], "as the second level takes them, in their order"


def test_rows_of_two_inputs_of_a_task_are_told_apart():
    left, right = source("left", Types.STRING()), source("right", PAIRS)
    printed(connected(left, right, uid="both"))
    (level,) = levels_of(planned([left, right]))
    assert [(port.task.uid, port.input_index) for port in level.ports] == [("both", 0), ("both", 1)]
    batch = level.wrap(1, rows(f0=["x"], f1=[1])).append_column(KEY_GROUP_FIELD, pa.array([None], pa.int32()))
    sent = []
    assert list(forward_rows(level, None, [batch], lambda index, got: sent.append((index, got.to_pydict())))) == []
    assert sent == [(1, {"f0": ["x"], "f1": [1]})]


def test_rows_sent_in_turn_are_numbered_where_they_are_made():
    root = source(output_type=Types.STRING())
    printed(partitioned(root, Partitioning.REBALANCE))
    plan = planned([root])
    (level,) = levels_of(plan)
    writer = LevelWriter(level, 5)
    batches = [writer.write(0, rows(value=["a", "b"])), writer.write(0, rows(value=["c"]))]
    assert [batch.column(1).to_pylist() for batch in batches] == [[5, 6], [7]]
    assert batches[0].schema == level.schema()
    assert level.ports[0].routing is Routing.REBALANCE


def broadcast_task():
    data, rules = source("data", Types.STRING()), source("rules", Types.STRING())
    printed(connected(data, partitioned(rules, Partitioning.BROADCAST), uid="match"))
    (task,) = planned([data, rules]).tasks
    return task


@pytest.mark.parametrize("bound", [0, 10_000_000], ids=["spilled", "in memory"])
def test_broadcast_rows_reach_the_slot_before_all_others(bound):
    wire = Wire()
    with InputSender(wire, broadcast_task(), bound) as sender:
        for index, words in [(0, ["d1", "d2"]), (1, ["r1"]), (0, ["d3"]), (1, ["r2"]), (0, ["d4"])]:
            sender.send(index, rows(value=words))
        assert sender.finish() == 6
    received = [(index, batch.column(0).to_pylist()) for index, batch in receive_batches(wire)]
    assert received == [(1, ["r1"]), (1, ["r2"]), (0, ["d1", "d2"]), (0, ["d3"]), (0, ["d4"])]


def test_rows_of_a_task_without_broadcast_input_do_not_wait():
    left, right = source("left", Types.STRING()), source("right", Types.STRING())
    printed(connected(left, right, uid="both"))
    (task,) = planned([left, right]).tasks
    wire = Wire()
    with InputSender(wire, task, 0) as sender:
        sender.send(1, rows(value=["x"]))
        sender.send(0, rows(value=["y"]))
        assert len(wire.frames) == 6, "input, schema and batch of each"
        assert sender.finish() == 2
