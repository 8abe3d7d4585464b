"""What a subtask counts by batch, and what that says of each of its operators."""

import threading

import pytest

from pystate.core.api.operator_kind import OperatorKind
from pystate.core.metrics.store import SubtaskMetricStore
from pystate.runtime.plan.chain import Chain, ChainNode, OperatorSpec
from pystate.runtime.plan.task import TaskInput, TaskSpec
from pystate.runtime.plan.task_output import OutputKind, OutputSpec
from pystate.runtime.slot.metrics.operator_counts import OperatorCounts
from pystate.runtime.slot.metrics_reporter import SlotMetricsReporter
from tests.runtime.slot.harness import OUT, UID, Count, SlotHarness


def output(tag):
    return OutputSpec(tag, OutputKind.FRAME, f"out {tag}")


def node(uid, kind=OperatorKind.FLAT_MAP, children=(), tags=()):
    return ChainNode(OperatorSpec(uid, uid, kind, None), list(children), [output(tag) for tag in tags])


def counts(head=None, children=(), tags=(), *, records_in=10, rows=None):
    chain = Chain(list(children), [output(tag) for tag in tags])
    spec = None if head is None else OperatorSpec("head", "head", head, None)
    task = TaskSpec("head", "head", "a" * 32, 1, 128, [TaskInput(None)], spec, chain)
    return OperatorCounts(task).counts(records_in, rows or {})


def test_the_head_reads_what_the_task_reads_and_writes_what_its_output_has():
    assert counts(OperatorKind.PROCESS, tags=[1], rows={1: 7}) == {"head": (10, 7)}
    assert counts(OperatorKind.PROCESS, tags=[1]) == {"head": (10, 0)}


def test_what_one_writes_the_next_one_reads():
    found = counts(OperatorKind.PROCESS, [node("next", tags=[2])], tags=[1], rows={1: 7, 2: 3})
    assert found == {"head": (10, 7), "next": (7, 3)}


def test_one_for_one_is_known_from_either_side():
    mapped = node("map", OperatorKind.MAP, [node("flat", tags=[1])])
    assert counts(OperatorKind.MAP, [mapped], rows={1: 3}) == {"head": (10, 10), "map": (10, 10), "flat": (10, 3)}
    mapped = node("map", OperatorKind.MAP, tags=[1])
    assert counts(OperatorKind.PROCESS, [mapped], rows={1: 4}) == {"head": (10, 4), "map": (4, 4)}


def test_what_nobody_counts_is_not_known():
    inner = node("inner", OperatorKind.FILTER, tags=[1])
    assert counts(OperatorKind.PROCESS, [inner], rows={1: 4}) == {"head": (10, None), "inner": (None, 4)}
    # after a union one node, and one output, is fed by several
    shared = node("shared", tags=[2])
    found = counts(None, [node("a", children=[shared], tags=[1]), node("b", children=[shared])], rows={1: 4, 2: 9})
    assert found == {"a": (10, 4), "b": (10, None), "shared": (None, 9)}
    both = counts(None, [node("a", tags=[1]), node("b", tags=[1])], rows={1: 9})
    assert both == {"a": (10, None), "b": (10, None)}


def test_a_sink_reads_and_writes_nothing():
    sink = node("sink", OperatorKind.SINK)
    assert counts(OperatorKind.PROCESS, [sink], tags=[1], rows={1: 4}) == {"head": (10, 4), "sink": (4, 0)}


class Measured(Count):
    def open(self, runtime_context):
        super().open(runtime_context)
        group = runtime_context.get_metrics_group()
        self.words = group.counter("words")
        self.meter = group.meter("rate")
        self.threads = set()
        self.last = ""
        group.gauge("last", self.look)

    def look(self):
        self.threads.add(threading.get_ident())
        return self.last

    def process_element(self, value, ctx):
        self.words.inc()
        self.meter.mark_event()
        self.last = value
        yield from super().process_element(value, ctx)


@pytest.fixture
def slot(tmp_path):
    made = SlotHarness(tmp_path, Measured())
    yield made
    made.close()


def values(slot, now):
    return {(sample.operator, ".".join(sample.path)): sample.value for sample in slot.subtask.chain.metrics.collect(now)}


def test_a_subtask_counts_records_bytes_time_and_epochs(slot):
    values(slot, 0)
    slot.run_epoch(0, ["a", "b", "a", "c"])
    found = values(slot, 2)
    assert found[None, "numRecordsIn"] == found[None, "numRecordsOut"] == 4
    assert found[UID, "numRecordsIn"] == found[UID, "numRecordsOut"] == 4
    assert found[None, "numRecordsInPerSecond"] == found[UID, "numRecordsOutPerSecond"] == 2
    assert found[None, "numBytesIn"] > 0
    assert found[None, "numBytesOut"] > 0
    assert found[None, "numEpochs"] == 1
    assert found[None, "lastEpochDurationMs"] >= 0
    assert 0 < found[None, "busyTimeMsPerSecond"] <= 1000
    assert found[UID, "words"] == 4
    assert found[UID, "rate"] == {"rate": 2.0, "count": 4}
    assert found[UID, "last"] == "c"


def test_records_of_an_epoch_that_is_given_up_count_and_count_again(slot):
    slot.run_epoch(0, ["a"])
    with pytest.raises(Exception, match="died"):
        slot.subtask.run(1, slot.header(1).asker, lambda: None, lambda: dying(slot))
    slot.run_epoch(1, ["b", "c"])
    found = values(slot, 1)
    assert found[None, "numRecordsIn"] == 1 + 2 + 2
    assert found[None, "numEpochs"] == 2
    assert (slot.coordinator.prepared[-1].rows_in, slot.coordinator.prepared[-1].rows_out) == (2, 2)


def dying(slot):
    from pystate.common.errors import ControlError

    yield 0, slot.batch(["b", "c"])
    raise ControlError("the exchange died")


def test_gauges_are_called_on_the_thread_that_runs_the_function(slot):
    slot.run_epoch(0, ["a"])
    values(slot, 1)
    function = slot.task.head.function
    assert threading.get_ident() in function.threads  # open()
    assert len(function.threads) == 2  # and the epoch's own; never one that collects


def test_a_slot_reports_all_its_subtasks_and_never_fails(slot, capsys):
    report = SlotMetricsReporter({UID: slot.subtask}, lambda: 1.0).report()
    told = SubtaskMetricStore.unpacked(report[UID])
    assert (list(report), told.index) == ([UID], 0)
    assert len(told.samples) > 10
    slot.subtask.chain.metrics.collect = None
    broken = SlotMetricsReporter({UID: slot.subtask}, lambda: 1.0)
    assert broken.report() is None
    assert broken.report() is None
    assert capsys.readouterr().err.count("TypeError") == 1


def test_an_output_is_counted_by_its_tag(tmp_path):
    chain = Chain([node("twice", tags=[2])], [OUT])
    chain.children[0].operator.function = lambda element: [element[0], element[0]]
    slot = SlotHarness(tmp_path, Count(), chain=chain)
    try:
        slot.run_epoch(0, ["a", "b"])
        found = values(slot, 1)
        assert found[UID, "numRecordsOut"] == 2
        assert found["twice", "numRecordsIn"] == 2
        assert found["twice", "numRecordsOut"] == 4
        assert found[None, "numRecordsOut"] == 6
    finally:
        slot.close()


def test_what_the_state_backend_measures_belongs_to_the_operator_with_the_state(tmp_path):
    options = {"state.backend.rocksdb.metrics.estimate-num-keys": "true"}
    slot = SlotHarness(tmp_path, Count(), state_backend="rocksdb", configuration=options)
    try:
        slot.run_epoch(0, ["a", "b", "a"])
        assert values(slot, 1)[UID, "count.rocksdb.estimate-num-keys"] == 2
    finally:
        slot.close()
    assert (UID, "count.rocksdb.estimate-num-keys") not in values(slot, 2)


def test_rows_of_a_stream_that_several_steps_read_are_written_once():
    chain = Chain([node("more", tags=[3, 4])], [output(1), output(2)])
    task = TaskSpec(
        "head", "head", "a" * 32, 1, 128, [TaskInput(None)], OperatorSpec("head", "head", OperatorKind.PROCESS, None), chain
    )
    assert OperatorCounts(task).rows_out({1: 5, 2: 5, 3: 7, 4: 7}) == 12
    assert OperatorCounts(task).rows_out({}) == 0
