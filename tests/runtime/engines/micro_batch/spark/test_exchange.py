"""The exchange's stage against a slot, with a Spark task's context made up."""

import subprocess
import sys

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from pystate.common import Types
from pystate.common.errors import JobGraphError
from pystate.core.api.functions import FlatMapFunction
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.records.codec import KEY_GROUP_FIELD
from pystate.core.records.key_column import KeyColumn
from pystate.runtime.engines.micro_batch.slot.prepared_epoch import PreparedEpoch
from pystate.runtime.engines.micro_batch.spark import exchange, source_stage
from pystate.runtime.engines.micro_batch.spark.exchange import SlotDirectory, exchange_stage
from pystate.runtime.engines.micro_batch.spark.level import Level, Port
from pystate.runtime.engines.micro_batch.spark.source_stage import ReadyBatches
from pystate.runtime.engines.micro_batch.spark.worker_stages import chain_stage
from pystate.runtime.plan.chain import Chain, ChainNode, OperatorSpec
from pystate.runtime.plan.task import JobEnvironment, TaskInput, TaskSpec
from pystate.runtime.plan.task_output import OutputKind, OutputSpec, Routing
from tests.runtime.slot.harness import JOB_ID, SECRET, SlotHarness

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
        return {exchange.EPOCH_PROPERTY: "0", exchange.CLOCK_PROPERTY: "0"}.get(key)


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
    slot.finish(0)
    assert slot.fetch(0) == [("a", 1), ("a", 2), ("b", 1)]
    assert slot.coordinator.prepared == [PreparedEpoch(0, 1, 0, rows_read=6, rows_in=3, rows_out=3)]


def test_an_exchange_outside_of_an_epoch_is_refused(slot, monkeypatch):
    level = Level((slot.task,), (port(slot.task),))
    stage = exchange_stage(SlotDirectory(JOB_ID, 0, SECRET, (slot.server.address,)), level, None, held_bytes=1 << 20)
    thread = TaskAttempt(0)
    monkeypatch.setattr(thread, "getLocalProperty", lambda _: None)
    monkeypatch.setattr(exchange.TaskContext, "get", lambda: thread)
    with pytest.raises(JobGraphError, match="outside of its epoch") as caught:
        list(stage(iter([slot.batch(["a"])])))
    assert "InheritableThread" in str(caught.value.hint)
    assert slot.coordinator.prepared == []


class Many(FlatMapFunction):
    """Gives as many rows of 1 MB as the element says."""

    def flat_map(self, value):
        for number in range(value):
            yield f"{number:{1 << 20}}"


def source_of_many(kept_output_bytes):
    edge = OutputSpec(0, OutputKind.EDGE, "edge", WORDS, target="sink", routing=Routing.FORWARD)
    node = ChainNode(OperatorSpec("many", "many", OperatorKind.FLAT_MAP, Many()), outputs=[edge])
    source = TaskSpec("source", "source", "c" * 32, 1, 128, [TaskInput(Types.LONG())], chain=Chain([node]))
    sink = TaskSpec("sink", "sink", "d" * 32, 1, 128, [TaskInput(WORDS)])
    level = Level((sink,), (Port(sink, 0, Routing.FORWARD, edge),))
    return chain_stage(source, JobEnvironment(JOB_ID, "job", 0, {}, "hashmap", kept_output_bytes, ""), level)


def test_rows_leave_a_stage_before_the_rows_that_it_reads_at_once_are_through():
    read = []

    def batches():
        yield pa.RecordBatch.from_arrays([pa.array([2] * 30)], names=["value"])
        read.append("all of the first batch")
        yield pa.RecordBatch.from_arrays([pa.array([1])], names=["value"])

    made = source_of_many(1 << 30)(batches())
    first = next(made)
    assert first.nbytes < 10 << 20
    assert read == [], "the first batch makes 60 MB"
    assert first.num_rows + sum(batch.num_rows for batch in made) == 61


def test_what_a_function_makes_of_one_element_waits_in_a_file_past_the_bound(monkeypatch):
    waiting = []

    class Watched(ReadyBatches):
        def append(self, batch):
            super().append(batch)
            waiting.append(sum(one.nbytes for one in self.in_memory))

    monkeypatch.setattr(source_stage, "ReadyBatches", Watched)
    batches = [pa.RecordBatch.from_arrays([pa.array([60, 0, 5])], names=["value"])]
    lines = [text for batch in source_of_many(20 << 20)(iter(batches)) for text in batch.column(0).to_pylist()]
    assert [int(line) for line in lines] == [*range(60), *range(5)]
    assert max(waiting) <= 20 << 20


def test_a_rehearsal_reads_its_rows_and_reaches_no_slot(monkeypatch):
    monkeypatch.setattr(exchange.TaskContext, "get", lambda: TaskAttempt(0))
    task = TaskSpec("count", "count", "d" * 32, 1, 128, [TaskInput(WORDS, KeyColumn("__pystate_key", WORDS))])
    stage = exchange_stage(SlotDirectory(JOB_ID, 0, b"", ()), Level((task,), (port(task),)), None, 1 << 20)
    assert list(stage(iter([]))) == []


class Local:
    """Stands for what only the slots of a job can import."""

    def __reduce__(self):
        message = "a worker that hands rows on needs no functions"
        raise AssertionError(message)

    def __call__(self, value):
        return value


def test_a_worker_that_hands_rows_on_imports_nothing_that_runs_functions():
    key = KeyColumn("__pystate_key", WORDS)
    edge = OutputSpec(0, OutputKind.EDGE, "edge", WORDS, key, Local(), target="count", routing=Routing.KEY)
    head = OperatorSpec("count", "count", OperatorKind.PROCESS, Local())
    task = TaskSpec("count", "count", "d" * 32, 1, 128, [TaskInput(WORDS, key)], head, Chain(outputs=[edge]))
    level = Level((task,), (Port(task, 0, Routing.KEY, edge),))
    assert level.without_functions().schema() == level.schema()

    stage = cloudpickle.dumps(exchange_stage(SlotDirectory(JOB_ID, 0, SECRET, ()), level, level, 1 << 20))
    script = "import pickle, sys; pickle.load(sys.stdin.buffer); print(*sys.modules, sep='\\n')"
    loaded = subprocess.run([sys.executable, "-c", script], input=stage, stdout=subprocess.PIPE, check=True)

    modules = set(loaded.stdout.decode().split())
    assert "pystate.runtime.engines.micro_batch.spark.exchange" in modules
    heavy = {
        "pystate.runtime.slot.chain.operator_chain",
        "pystate.runtime.slot.chain.compiled_chain",
        "pystate.core.state.base.keyed_state_backend",
        "pystate.connectors",
        "fsspec",
    }
    assert not heavy & modules
