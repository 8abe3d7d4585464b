"""The metrics of stages before the slots, as a driver gathers them."""

from types import SimpleNamespace

from pystate.core.metrics.sample import MetricKind, MetricSample, counter, gauge
from pystate.runtime.spark.source_metrics import MAX_METRICS, SourceMetrics


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


def test_what_an_epoch_tells_at_its_end_is_what_passed_since_it_began():
    now = [10.0]
    metrics = SourceMetrics(Context(), lambda: now[0])
    metrics.epoch_begun()
    now[0] = 14.0
    metrics.samples()
    tell = metrics.reporter("source", 1)
    tell(0, [counter("numRecordsIn", 40), counter("accumulateBusyTimeMs", 1_000)])
    assert metrics.samples()["source", 0][1].value == 10, "and not nothing, as of a count that was never anything else"
    now[0] = 15.0
    tell(0, [counter("numRecordsIn", 10), counter("accumulateBusyTimeMs", 9_000)])
    found = sums(metrics)[0]
    assert found[None, "numRecordsInPerSecond"] == 10
    assert found[None, "busyTimeMsPerSecond"] == 1000, "two tasks at a time are busy all of the time, and not twice"


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
