"""Metrics as functions use them."""

import pytest

from pystate.core.metrics.operator_metrics import MAX_METRICS, OperatorMetrics, OperatorScope
from pystate.core.metrics.sample import MetricKind, MetricSample
from pystate.datastream import KeyedProcessFunction, MapFunction, MetricGroup
from pystate.testing import KeyedOneInputOperatorTestHarness, OneInputOperatorTestHarness

SCOPE = OperatorScope("count", ("host", "taskmanager", "slot-0", "job", "count", "0"), {"<job_name>": "job"})


@pytest.fixture
def warnings():
    return []


@pytest.fixture
def metrics(warnings):
    return OperatorMetrics(SCOPE, warnings.append)


def samples(metrics):
    return {".".join(sample.path): sample.value for sample in metrics.samples()}


def test_groups_give_names_scope_and_variables(metrics):
    group: MetricGroup = metrics.group.add_group("words").add_group("lang", "en")
    group.counter("seen").inc()
    assert group.get_scope_components() == [*SCOPE.components, "words", "lang", "en"]
    assert group.get_metric_identifier("seen") == "host.taskmanager.slot-0.job.count.0.words.lang.en.seen"
    assert group.get_all_variables() == {"<job_name>": "job", "lang": "en"}
    (sample,) = metrics.samples()
    assert sample == MetricSample("seen", MetricKind.COUNTER, 1, "count", (("words", None), ("lang", "en")))
    assert MetricSample.from_plain(sample.to_plain()) == sample


def test_the_same_name_is_the_same_metric_in_one_group_only(metrics, warnings):
    assert metrics.group.counter("seen") is metrics.group.counter("seen")
    assert metrics.group.add_group("a").meter("m") is metrics.group.add_group("a").meter("m", 5)
    assert metrics.group.add_group("a").counter("seen") is not metrics.group.counter("seen")
    assert warnings == []


def test_a_name_that_is_taken_is_told_and_the_metric_works_all_the_same(metrics, warnings):
    metrics.group.counter("seen").inc()
    other = metrics.group.distribution("seen")
    other.update(5)
    assert other.get_count() == 1
    own = metrics.group.counter("numRecordsIn")
    own.inc()
    metrics.group.add_group("mine").counter("numRecordsIn").inc(7)
    assert samples(metrics) == {"seen": 1, "mine.numRecordsIn": 7}
    assert [line.partition(": ")[2].partition(":")[0] for line in warnings] == [
        "the metric 'seen' of 'count' is not reported",
        "the metric 'numRecordsIn' of 'count' is not reported",
    ]


def test_an_operator_has_so_many_metrics_and_no_more(metrics, warnings):
    for number in range(MAX_METRICS + 5):
        metrics.group.counter(f"key-{number}").inc()
    assert len(metrics.samples()) == MAX_METRICS
    assert len(warnings) == 1


def test_a_gauge_has_a_value_once_it_was_looked_at_and_the_last_function_counts(metrics):
    values = iter([1, 2.5])
    metrics.group.gauge("left", lambda: 0)
    metrics.group.gauge("left", lambda: next(values))
    assert samples(metrics) == {}
    metrics.sample_gauges()
    assert samples(metrics) == {"left": 1}
    metrics.sample_gauges()
    assert samples(metrics) == {"left": 2.5}


def test_a_gauge_that_fails_is_told_once_and_has_no_value(metrics, warnings):
    metrics.group.gauge("left", lambda: 1 / 0)
    metrics.group.counter("seen")
    metrics.sample_gauges()
    metrics.sample_gauges()
    assert samples(metrics) == {"seen": 0}
    assert warnings == ["WARNING: the gauge 'left' of 'count' failed: ZeroDivisionError: division by zero"]


class Measured(KeyedProcessFunction):
    def open(self, runtime_context):
        group = runtime_context.get_metrics_group()
        assert runtime_context.get_metric_group() is group
        self.seen = group.counter("seen")
        self.rate = group.meter("rate", 10)
        self.sizes = group.add_group("in").distribution("size")
        self.last = None
        group.gauge("last", lambda: self.last)

    def process_element(self, value, ctx):
        self.seen.inc()
        self.rate.mark_event()
        self.sizes.update(len(value))
        self.last = value
        yield value


def test_the_harness_shows_what_a_function_measures():
    with KeyedOneInputOperatorTestHarness(Measured(), lambda value: value) as harness:
        harness.open()
        harness.process_elements(["a", "bcd"])
        assert harness.get_metrics()["seen"] == 2
        assert harness.get_metrics()["last"] == "None"
        harness.end_epoch()
        harness.set_processing_time(2000)
        assert harness.get_metrics() == {
            "in.size_count": 2,
            "in.size_max": 3,
            "in.size_mean": 2.0,
            "in.size_min": 1,
            "in.size_sum": 4,
            "last": "bcd",
            "rate": 1.0,
            "rate_count": 2,
            "seen": 2,
        }


def test_what_was_counted_stays_counted_where_an_epoch_is_undone():
    with KeyedOneInputOperatorTestHarness(Measured(), lambda value: value) as harness:
        harness.open()
        harness.process_element("a")
        harness.roll_back_epoch()
        harness.process_element("a")
        assert harness.get_metrics()["seen"] == 2


class Lower(MapFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_metrics_group().counter("seen")

    def map(self, value):
        self.seen.inc()
        return value.lower()


def test_a_function_without_a_key_measures_too():
    with OneInputOperatorTestHarness(Lower()) as harness:
        harness.open()
        harness.process_element("A")
        assert harness.get_metrics() == {"seen": 1}
