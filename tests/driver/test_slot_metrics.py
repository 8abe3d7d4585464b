"""The metrics of slots and of stages, as a driver gathers them over attempts."""

from types import SimpleNamespace

import pytest

from pystate.common.control import ControlClient, ControlServer
from pystate.driver.slot_pool import SlotPool
from pystate.metrics.sample import MetricKind, MetricSample, counter, gauge, samples_to_plain
from pystate.metrics.slot_metrics import SlotMetrics
from pystate.spark.source_metrics import MAX_METRICS, SourceMetrics
from tests.driver.test_lost_slots import SECRET, Events


def report(*samples, host="worker", subtask=0):
    return {"host": host, "tasks": {"count": {"subtask": subtask, "samples": samples_to_plain(samples)}}}


def words(value):
    return MetricSample("words", MetricKind.COUNTER, value, "count")


def of_operator(value):
    return MetricSample("numRecordsIn", MetricKind.COUNTER, value, "count")


@pytest.fixture
def metrics():
    made = SlotMetrics()
    made.begin_attempt(0)
    return made


def values(metrics, subtask=0):
    found = metrics.of("count", subtask)
    return {(sample.operator, sample.name): sample.value for sample in found.samples}


def test_the_latest_report_counts(metrics):
    metrics.report(0, report(counter("numRecordsIn", 5)))
    metrics.report(0, report(counter("numRecordsIn", 7), gauge("lastEpochDurationMs", 3)))
    assert values(metrics) == {(None, "numRecordsIn"): 7, (None, "lastEpochDurationMs"): 3}
    assert metrics.of("count", 0).host == "worker"
    assert metrics.of("count", 1).samples == []


def test_our_counters_go_on_over_attempts_and_those_of_functions_begin_anew(metrics):
    metrics.report(0, report(counter("numRecordsIn", 5), of_operator(4), words(5), gauge("lastEpochDurationMs", 3)))
    metrics.begin_attempt(1)
    assert values(metrics) == {(None, "numRecordsIn"): 5, ("count", "numRecordsIn"): 4}
    assert metrics.of("count", 0).host == "worker"  # where it ran last: its series goes on under the same labels
    metrics.report(1, report(counter("numRecordsIn", 2), of_operator(2), words(1), gauge("lastEpochDurationMs", 9)))
    metrics.begin_attempt(2)
    metrics.report(2, report(counter("numRecordsIn", 1), of_operator(1), words(1)))
    assert values(metrics) == {(None, "numRecordsIn"): 8, ("count", "numRecordsIn"): 7, ("count", "words"): 1}


def test_a_slot_of_an_earlier_attempt_is_not_listened_to(metrics):
    metrics.begin_attempt(1)
    metrics.report(0, report(counter("numRecordsIn", 5)))
    assert values(metrics) == {}


@pytest.mark.parametrize("told", [None, 5, {}, {"host": "a"}, {"host": "a", "tasks": {"count": {}}}, report()["tasks"]])
def test_a_report_that_can_not_be_read_is_left_out(metrics, told):
    metrics.report(0, report(counter("numRecordsIn", 5)))
    metrics.report(0, told)
    metrics.report(0, {"host": "a", "tasks": {"count": {"subtask": 0, "samples": [[None, [], "x", "no kind", 1]]}}})
    assert values(metrics) == {(None, "numRecordsIn"): 5}


def test_heartbeats_and_the_last_word_of_a_slot_carry_its_metrics():
    events = Events()
    heard = []
    events.slot_metrics = heard.append
    pool = SlotPool("a" * 32, 0, 1, SECRET, events)
    pool.start()
    server = ControlServer(SECRET, lambda request: {"last": request["op"]})
    server.start()
    client = ControlClient(*pool.description.coordinator, SECRET)
    told = {"slot": 0, "attempt": 0}
    try:
        client.call("register", **told, pid=1, task_attempt=0, control=[server.host, server.port], data="x")
        client.call("heartbeat", **told, metrics={"tasks": 1})
        client.call("heartbeat", **told)
    finally:
        pool.close()
        server.close()
    assert heard == [{"tasks": 1}, {"last": "shutdown"}]


class Context:
    """Keeps an accumulator as Spark does: a task's own value first, then all in the driver's."""

    def accumulator(self, value, param):
        def add(term):
            kept.value = param.addInPlace(kept.value, param.addInPlace(param.zero({}), term))

        kept = SimpleNamespace(value=value, add=add)
        return kept


def sums(metrics):
    return {
        subtask: {(one.operator, ".".join(one.path)): one.value for one in samples}
        for (_, subtask), samples in metrics.samples().items()
    }


def test_what_tasks_of_a_stage_measured_is_added_up_by_partition_in_turn():
    now = [0.0]
    metrics = SourceMetrics(Context(), lambda: now[0])
    tell = metrics.reporter("source", 2)
    sizes = MetricSample("size", MetricKind.DISTRIBUTION, {"count": 2, "sum": 6, "min": 1, "max": 5}, "map", (("in", None),))
    none = MetricSample("size", MetricKind.DISTRIBUTION, {"count": 0, "sum": 0, "min": 0, "max": 0}, "map", (("in", None),))
    rate = MetricSample("rate", MetricKind.METER, {"rate": 0.0, "count": 3}, "map")
    left = MetricSample("left", MetricKind.GAUGE, 9, "map")
    tell(0, [counter("numRecordsIn", 5), gauge("numRecordsInPerSecond", 0.0), counter("numEpochs", 1), sizes, rate, left])
    metrics.samples()
    now[0] = 2.0
    tell(2, [counter("numRecordsIn", 7), none, rate])
    tell(1, [counter("numRecordsIn", 1)])
    found = sums(metrics)
    assert found[0] == {
        (None, "numRecordsIn"): 12,
        (None, "numRecordsInPerSecond"): 3.5,
        ("map", "in.size"): {"count": 2, "sum": 6, "min": 1, "max": 5},
        ("map", "rate"): {"rate": 1.5, "count": 6},
        ("map", "left"): 9,
    }
    assert found[1] == {(None, "numRecordsIn"): 1, (None, "numRecordsInPerSecond"): 0.0}


def test_a_stage_that_makes_up_names_for_ever_does_not_fill_the_driver():
    metrics = SourceMetrics(Context(), lambda: 0.0)
    tell = metrics.reporter("source", 1)
    for epoch in range(20):
        tell(0, [counter("numRecordsIn", 1), *(of_map(f"{epoch}-{number}") for number in range(900))])
    found = sums(metrics)[0]
    assert MAX_METRICS <= len(found) < MAX_METRICS + 1000
    assert found[None, "numRecordsIn"] == 20


def of_map(name):
    return MetricSample(name, MetricKind.COUNTER, 1, "map")
