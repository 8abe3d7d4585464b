"""Stages as Spark's Python workers run them: each task reads what it runs from a pickle, and the process goes on."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.accumulators import Accumulator, AddingAccumulatorParam, _accumulatorRegistry
from pyspark.serializers import CloudPickleSerializer

from pystate.common import Types
from pystate.core.api.functions import MapFunction
from pystate.core.api.operator_kind import OperatorKind
from pystate.runtime.engines.micro_batch.spark.level import Level, Port
from pystate.runtime.engines.micro_batch.spark.source_stage import SourceStageSpec
from pystate.runtime.engines.micro_batch.spark.worker_stages import ShippedStage
from pystate.runtime.plan.chain import Chain, ChainNode, OperatorSpec
from pystate.runtime.plan.task import JobEnvironment, TaskInput, TaskSpec
from pystate.runtime.plan.task_output import OutputKind, OutputSpec, Routing
from pystate.runtime.spark.workers import python_worker

WORDS = Types.STRING()
EVENTS = []
PICKLER = CloudPickleSerializer()


class Client(MapFunction):
    """Notes what becomes of it; fails at the word "poison"."""

    def __init__(self, accumulator=None, fails_to_close=False):
        self.accumulator = accumulator
        self.fails_to_close = fails_to_close

    def open(self, runtime_context):
        self.context = runtime_context
        self.seen = runtime_context.get_metrics_group().counter("seen")
        self.lengths = runtime_context.get_metrics_group().distribution("lengths")
        EVENTS.append("open")

    def map(self, value):
        if value == "poison":
            raise ValueError(value)
        if self.accumulator is not None:
            self.accumulator.add(1)
        self.seen.inc()
        self.lengths.update(len(value))
        return f"{value} {self.context.get_index_of_this_subtask()}"

    def close(self):
        EVENTS.append("close")
        if self.fails_to_close:
            message = "the client is gone"
            raise OSError(message)


class Worker(python_worker.PythonWorker):
    """Leaves the process of the tests alone."""

    def end_task(self):
        EVENTS.append("idle")


@pytest.fixture(autouse=True)
def worker(monkeypatch):
    EVENTS.clear()
    monkeypatch.setenv("SPARK_REUSE_WORKER", "1")
    monkeypatch.setattr(python_worker, "WORKER", Worker())


def spec(function, attempt=0, kind=OperatorKind.MAP):
    edge = OutputSpec(0, OutputKind.EDGE, "edge", WORDS, target="sink", routing=Routing.FORWARD)
    node = ChainNode(OperatorSpec("client", "client", kind, function), outputs=[edge])
    source = TaskSpec("source", "source", "c" * 32, 2, 128, [TaskInput(WORDS)], chain=Chain([node]))
    sink = TaskSpec("sink", "sink", "d" * 32, 2, 128, [TaskInput(WORDS)])
    level = Level((sink,), (Port(sink, 0, Routing.FORWARD, edge),))
    return SourceStageSpec(source, JobEnvironment("b" * 32, "job", attempt, {}, "hashmap", 1 << 20, ""), level)


def shipped(function, attempt=0):
    """Return what Spark holds of a stage: bytes, made once per attempt."""
    return PICKLER.dumps(ShippedStage(spec(function, attempt)))


def batches(words):
    return iter([pa.RecordBatch.from_arrays([pa.array([word])], names=["value"]) for word in words])


def run(stage, partition, words, report=None):
    """Be a task of Spark's."""
    made = PICKLER.loads(stage).run(partition, batches(words), report)
    return [text for batch in made for text in batch.column(0).to_pylist()]


def test_functions_are_opened_once_for_all_epochs_and_partitions():
    stage = shipped(Client())
    for _epoch in range(3):
        assert run(stage, 0, ["a", "b"]) == ["a 0", "b 0"]
        assert run(stage, 1, ["c"]) == ["c 1"]
    assert Counter(EVENTS) == {"open": 1, "idle": 6}


def test_the_next_attempt_finds_the_functions_of_the_last_closed():
    run(shipped(Client(), attempt=0), 0, ["a"])
    run(shipped(Client(), attempt=1), 0, ["a"])
    assert EVENTS == ["open", "idle", "close", "open", "idle"]


def test_a_function_that_can_not_be_closed_is_no_matter_of_the_next_attempt(capsys):
    run(shipped(Client(fails_to_close=True), attempt=0), 0, ["a"])
    assert run(shipped(Client(), attempt=1), 0, ["a"]) == ["a 0"]
    assert "OSError: the client is gone" in capsys.readouterr().err


def test_two_sources_of_a_job_are_kept_side_by_side():
    first, second = shipped(Client()), shipped(Client(fails_to_close=True))
    for stage in (first, second, first, second):
        run(stage, 0, ["a"])
    assert Counter(EVENTS) == {"open": 2, "idle": 4}


def test_a_function_that_failed_is_closed_and_not_used_again():
    stage = shipped(Client())
    run(stage, 0, ["a"])
    with pytest.raises(ValueError, match="poison"):
        run(stage, 0, ["b", "poison"])
    assert EVENTS == ["open", "idle", "close"]
    assert run(stage, 0, ["c"]) == ["c 0"], "what the task that failed had made is not handed on"
    assert EVENTS == ["open", "idle", "close", "open", "idle"]


def test_a_task_that_is_given_up_half_way_takes_its_functions_with_it():
    large = "x" * (9 << 20)  # a batch of its own
    made = PICKLER.loads(shipped(Client())).run(0, batches([large, large]), None)
    next(made)
    made.close()
    assert EVENTS == ["open", "close"]


def test_a_worker_that_spark_uses_once_keeps_nothing(monkeypatch):
    monkeypatch.delenv("SPARK_REUSE_WORKER")
    run(shipped(Client()), 0, ["a"])
    assert EVENTS == ["open", "close"]


def test_a_worker_that_becomes_a_slot_keeps_nothing():
    run(shipped(Client()), 0, ["a"])
    python_worker.become_slot()
    assert EVENTS == ["open", "idle", "close"]


def test_what_a_function_counts_is_told_once():
    stage, told = shipped(Client()), []
    for words in (["a", "bcd"], ["e"], []):
        run(stage, 1, words, lambda partition, samples: told.append((partition, samples)))
    assert [partition for partition, _ in told] == [1, 1, 1]
    by_name = [{sample.name: sample.value for sample in samples if sample.operator == "client"} for _, samples in told]
    assert [values["seen"] for values in by_name] == [2, 1, 0]
    assert [(values["lengths"]["count"], values["lengths"]["sum"]) for values in by_name] == [(2, 4), (1, 1), (0, 0)]
    own = [{sample.name: sample.value for sample in samples if sample.operator is None} for _, samples in told]
    assert [values["numRecordsIn"] for values in own] == [2, 1, 0]


def test_accumulators_of_spark_that_a_function_holds_count_in_each_task():
    stage = shipped(Client(Accumulator(7, 0, AddingAccumulatorParam(0))))
    for words in (["a", "b", "c"], ["d"]):
        _accumulatorRegistry.clear()  # as Spark's worker does before each task
        run(stage, 0, words)
        assert _accumulatorRegistry[7]._value == len(words)
    _accumulatorRegistry.clear()


END = """
import os, signal, sys
leave = os._exit
sys.path[:0] = {path!r}
os.environ["SPARK_REUSE_WORKER"] = "1"
from tests.runtime.engines.micro_batch.spark import test_worker_stages as stages

class Leaves(stages.MapFunction):
    def map(self, value):
        return value
    def close(self):
        os.kill(os.getpid(), signal.SIGTERM)  # Spark has no patience
        open({mark!r}, "a").write("closed once\\n")
        {close}

stage = stages.shipped(Leaves())
stages.run(stage, 0, ["a"])
if os.fork() == 0:
    os._exit(0)  # a child of the function's closes nothing
os.wait()
os._exit = leave  # as a slot does at its end
stages.run(stage, 0, ["a"])
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # Spark's worker does it when it begins to wait for the next task
os.kill(os.getpid(), signal.SIGHUP)  # Spark's daemon sends it while the connection closes
os._exit(3)
"""


@pytest.mark.parametrize(("close", "code"), [("pass", 3), ("signal.alarm(1); signal.pause()", -14)], ids=["ends", "hangs"])
def test_a_worker_that_ends_closes_its_functions_but_does_not_wait_for_ever(tmp_path, close, code):
    mark = tmp_path / "mark"
    script = END.format(path=[path for path in sys.path if path], mark=str(mark), close=close)
    ended = subprocess.run([sys.executable, "-c", script], check=False, cwd=Path(__file__).parents[5], env=dict(os.environ))
    assert mark.read_text() == "closed once\n"
    assert ended.returncode == code
