import pyarrow as pa
import pytest

from pystate.common import Types
from pystate.slot.output import OutputKind, OutputSpec
from pystate.slot.records import KEY_GROUP_FIELD, KeyColumn
from pystate.slot.task import TaskInput, TaskSpec
from pystate.spark.level import TASK_FIELD, Level


def task(uid, parallelism, key=None):
    return TaskSpec(uid, uid, uid, parallelism, 128, [TaskInput(Types.STRING(), key)])


@pytest.fixture
def level():
    tasks = [task("a", 2, KeyColumn("value", Types.STRING())), task("b", 3)]
    edges = [
        OutputSpec(5, OutputKind.EDGE, "to b", Types.TUPLE([Types.STRING(), Types.LONG()]), target="b"),
        OutputSpec(3, OutputKind.EDGE, "to a", Types.STRING(), target="a"),
    ]
    return Level.of(tasks, edges)


def test_edges_stand_in_the_order_of_the_tasks_they_lead_to(level):
    assert [edge.target for edge in level.edges] == ["a", "b"]


def test_partitions_count_through_the_subtasks_of_all_tasks(level):
    assert level.partitions == 5
    owners = [level.owner_of(partition) for partition in range(5)]
    assert owners == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]
    assert [level.first_partition(index) + subtask for index, subtask in owners] == list(range(5))
    with pytest.raises(ValueError, match="no partition"):
        level.owner_of(5)


def test_rows_of_an_edge_come_out_as_they_went_in(level):
    words = pa.RecordBatch.from_pydict({"value": ["x", "y"]})
    wrapped = level.wrap(0, words)
    assert wrapped.schema == level.schema()
    assert wrapped.column(TASK_FIELD).to_pylist() == [0, 0]
    routed = wrapped.append_column(KEY_GROUP_FIELD, pa.array([7, 9], pa.int32()))
    assert level.unwrap(0, routed).to_pydict() == {"value": ["x", "y"], KEY_GROUP_FIELD: [7, 9]}

    pairs = pa.RecordBatch.from_pydict({"f0": ["x", None], "f1": [1, 2]})
    routed = level.wrap(1, pairs).append_column(KEY_GROUP_FIELD, pa.array([None, None], pa.int32()))
    assert level.unwrap(1, routed).to_pydict() == pairs.to_pydict(), "a task without a key gets no key groups"


def test_a_level_of_one_task_takes_rows_as_they_are():
    edge = OutputSpec(0, OutputKind.EDGE, "e", Types.STRING(), target="a")
    level = Level.of([task("a", 2)], [edge])
    words = pa.RecordBatch.from_pydict({"value": ["x"]})
    assert level.wrap(0, words) is words
    assert level.unwrap(0, words) is words
    assert level.schema() == edge.schema()
