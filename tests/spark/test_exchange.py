"""The exchange's stage against a slot, with a Spark task's context made up."""

import pyarrow as pa
import pytest

from pystate.common import Types
from pystate.slot.output import OutputKind, OutputSpec, Routing
from pystate.slot.records import KEY_GROUP_FIELD, KeyColumn
from pystate.slot.task import TaskInput, TaskSpec
from pystate.spark import exchange
from pystate.spark.exchange import SlotDirectory, exchange_stage
from pystate.spark.level import Level, Port
from tests.slot.harness import JOB_ID, SECRET, SlotHarness

WORDS = Types.STRING()


class TaskAttempt:
    """What a Spark task knows of itself."""

    def __init__(self, attempt):
        self.attempt = attempt

    def partitionId(self):  # noqa: N802 - Spark's name
        return 0

    def stageId(self):  # noqa: N802 - Spark's name
        return 1

    def taskAttemptId(self):  # noqa: N802 - Spark's name
        return self.attempt

    def getLocalProperty(self, key):  # noqa: N802 - Spark's name
        return "0"


@pytest.fixture
def slot(tmp_path):
    harness = SlotHarness(tmp_path)
    yield harness
    harness.close()


def port(task, routing=Routing.KEY):
    key = task.inputs[0].key
    edge = OutputSpec(0, OutputKind.EDGE, "edge", WORDS, key, target=task.uid, routing=routing)
    return Port(task, 0, routing, edge)


def test_rows_that_pass_through_come_again_for_a_task_that_is_run_again_and_its_own_count_once(slot, monkeypatch):
    later = TaskSpec("later", "later", "d" * 32, 1, 128, [TaskInput(WORDS, KeyColumn("value", WORDS))])
    level = Level((slot.task,), (port(slot.task),), (port(later),))
    next_level = Level((later,), (port(later),))
    slots = SlotDirectory(JOB_ID, 0, SECRET, (slot.server.address,))
    stage = exchange_stage(slots, level, next_level, held_bytes=1 << 20)

    def batches():
        for index, words in [(0, ["a", "a"]), (1, ["x"]), (0, ["b"]), (1, ["y", "z"])]:
            own = slot.batch(words)
            wrapped = level.wrap(index, own.select(["value"]))
            yield wrapped.append_column(KEY_GROUP_FIELD, own.column(KEY_GROUP_FIELD))

    def run(attempt):
        monkeypatch.setattr(exchange.TaskContext, "get", lambda: TaskAttempt(attempt))
        return pa.Table.from_batches(list(stage(batches()))).to_pydict()

    assert run(attempt=0) == run(attempt=1) == {"value": ["x", "y", "z"]}
    assert slot.fetch(0) == [("a", 1), ("a", 2), ("b", 1)]
    assert slot.coordinator.finished == [("count", 0, 0, 3, 3)]
