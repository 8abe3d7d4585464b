"""The metrics of slots, as a driver gathers them over attempts."""

import msgpack
import pytest

from pystate.core.metrics.sample import MetricKind, MetricSample, counter, gauge
from pystate.core.metrics.slot_metrics import SlotMetrics
from pystate.core.metrics.store import SubtaskMetricStore


def report(*samples, host="worker", subtask=0):
    return subtask, {"count": SubtaskMetricStore(subtask, host, list(samples)).packed()}


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
    metrics.report(0, *report(counter("numRecordsIn", 5)))
    metrics.report(0, *report(counter("numRecordsIn", 7), gauge("lastEpochDurationMs", 3)))
    assert values(metrics) == {(None, "numRecordsIn"): 7, (None, "lastEpochDurationMs"): 3}
    assert metrics.of("count", 0).host == "worker"
    assert metrics.of("count", 1).samples == []


def test_our_counters_go_on_over_attempts_and_those_of_functions_begin_anew(metrics):
    metrics.report(0, *report(counter("numRecordsIn", 5), of_operator(4), words(5), gauge("lastEpochDurationMs", 3)))
    metrics.begin_attempt(1)
    assert values(metrics) == {(None, "numRecordsIn"): 5, ("count", "numRecordsIn"): 4}
    assert metrics.of("count", 0).host == "worker"  # where it ran last: its series goes on under the same labels
    metrics.report(1, *report(counter("numRecordsIn", 2), of_operator(2), words(1), gauge("lastEpochDurationMs", 9)))
    metrics.begin_attempt(2)
    metrics.report(2, *report(counter("numRecordsIn", 1), of_operator(1), words(1)))
    assert values(metrics) == {(None, "numRecordsIn"): 8, ("count", "numRecordsIn"): 7, ("count", "words"): 1}


def test_a_slot_of_an_earlier_attempt_is_not_listened_to(metrics):
    metrics.begin_attempt(1)
    metrics.report(0, *report(counter("numRecordsIn", 5)))
    assert values(metrics) == {}


UNKNOWN_KIND = msgpack.packb({"index": 0, "host": "a", "samples": [[None, [], "x", "no kind", 1]]})


@pytest.mark.parametrize("told", [None, b"", b"\xc1", b"\x05", msgpack.packb({}), report()[1]["count"][:-1], UNKNOWN_KIND])
def test_a_report_that_can_not_be_read_is_left_out(metrics, told):
    metrics.report(0, *report(counter("numRecordsIn", 5)))
    assert values(metrics) == {(None, "numRecordsIn"): 5}
    metrics.report(0, 0, {"count": told})
    assert values(metrics) == {(None, "numRecordsIn"): 5}
