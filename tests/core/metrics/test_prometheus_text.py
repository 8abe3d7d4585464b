"""The text for Prometheus, read back with a reader of its grammar."""

import re

import pytest

from pystate.core.metrics.metric_catalog import BY_NAME, SYSTEM_METRICS
from pystate.core.metrics.prometheus_text import PrometheusText
from pystate.core.metrics.sample import MetricKind, MetricSample, counter, gauge
from pystate.core.metrics.store import JobMetricStore, OperatorLabel, SubtaskMetricStore, TaskMetricStore, figures
from tests.core.metrics.metrics_answer import driver_metrics
from tests.runtime.checkpoint.stats.statistics import Statistics

JOB_ID = "a" * 32
STATUS = {"state": "RUNNING", "attempt": 2, "timestamps": {"RUNNING": 0}}

_LINE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (\S+)$')
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')


def read(text):
    """Return {name: (type, help, {labels: value})}; fails at whatever the grammar of version 0.0.4 doesn't have."""
    assert text.endswith("\n")
    families = {}
    helped, name = {}, None
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            name, _, meaning = line[7:].partition(" ")
            assert name not in helped, f"{name} is there twice"
            helped[name] = meaning
        elif line.startswith("# TYPE "):
            typed, _, kind = line[7:].partition(" ")
            assert typed == name
            assert kind in ("counter", "gauge")
            families[name] = (kind, helped[name], {})
        else:
            found = _LINE.match(line)
            assert found, line
            assert found[1] == name, "the samples of a family stand together"
            pairs = [(label, unescaped(value)) for label, value in _LABEL.findall(found[2] or "")]
            assert len({label for label, _ in pairs}) == len(pairs)
            labels = frozenset(pairs)
            assert labels not in families[name][2], "a series is there twice"
            families[name][2][labels] = float(found[3])
    return families


def unescaped(text):
    return re.sub(r"\\(.)", lambda escape: {"n": "\n"}.get(escape[1], escape[1]), text)


def written(view, *, prefix="flink", filter_values=True, name="word count", whole=True):
    text = PrometheusText(prefix=prefix, filter_values=filter_values, host="driver-host")
    text.add_job(JOB_ID, name, view, whole=whole)
    return read(text.text())


@pytest.fixture
def view():
    return JobMetricStore.of(STATUS, driver_metrics(Statistics().run(1).tracker), 5000, is_up=True)


def only(family):
    ((labels, value),) = family[2].items()
    return dict(labels), value


def test_names_and_labels_are_those_of_flinks_reporter(view):
    families = written(view)
    kind, _, series = families["flink_taskmanager_job_task_numRecordsIn"]
    assert kind == "counter"
    assert [dict(labels) for labels in series][1] == {
        "host": "worker_1",
        "tm_id": "slot_1",
        "job_id": JOB_ID,
        "job_name": "word_count",
        "task_id": "a" * 32,
        "task_name": "count____print",
        "subtask_index": "1",
    }
    assert sorted(series.values()) == [100, 101]
    labels = [dict(labels) for labels in families["flink_taskmanager_job_task_operator_numRecordsOut"][2]][0]
    assert labels["operator_name"] == "Process:_count"
    assert labels["operator_id"] == "a" * 32
    assert only(families["flink_jobmanager_job_numberOfCompletedCheckpoints"]) == (
        {"host": "driver_host", "job_id": JOB_ID, "job_name": "word_count"},
        1,
    )
    assert families["flink_jobmanager_job_lastEpochDuration"][0] == "gauge"
    assert only(families["pystate_job_up"])[1] == 1


def test_what_functions_measure_stands_in_the_operators_scope(view):
    families = written(view, filter_values=False)
    scope = "flink_taskmanager_job_task_operator_"
    kind, meaning, series = families[f"{scope}words_lang_seen"]
    assert (kind, meaning) == ("gauge", "seen (scope: taskmanager_job_task_operator)")
    assert {dict(labels)["lang"] for labels in series} == {'e"n\\\n'}
    assert {dict(labels)["job_name"] for labels in series} == {"word count"}
    figures = {name.removeprefix(scope): set(family[2].values()) for name, family in families.items() if scope in name}
    assert figures["rate"] == {2.5}
    assert figures["rate_count"] == {10}
    assert figures["size_count"] == {2}
    assert figures["size_mean"] == {3}
    assert figures["full"] == {1}
    assert all(value != value for value in figures["broken"])
    assert "last_word" not in figures  # a text is no number
    assert "flink_jobmanager_job_lastCheckpointExternalPath" not in families


def test_the_prefix_can_be_another_one_and_the_up_metric_keeps_its_own(view):
    families = written(view, prefix="my-pystate")
    assert all(name.startswith(("my_pystate_", "pystate_job_up")) for name in families)


def test_a_driver_that_hangs_leaves_one_line():
    assert {name: only(family)[1] for name, family in written(JobMetricStore(is_up=False), whole=False).items()} == {
        "pystate_job_up": 0
    }


def one_subtask(*samples):
    subtask = SubtaskMetricStore(0, "h", list(samples))
    task = TaskMetricStore("map", "b" * 32, "map", 1, {"map": OperatorLabel("b" * 32, "map")}, [subtask])
    return JobMetricStore(True, [], [task])


def of_function(name, value, *groups):
    return MetricSample(name, MetricKind.COUNTER, value, "map", groups)


def test_names_that_are_one_name_to_prometheus_are_written_once():
    families = written(one_subtask(of_function("a-b", 1), of_function("a_b", 2), of_function("b", 3, ("a", None))))
    assert only(families["flink_taskmanager_job_task_operator_a_b"])[1] == 1


@pytest.mark.parametrize(
    ("variable", "label"),
    [
        ("job_id", "exported_job_id"),
        ("quantile", "exported_quantile"),
        ("__name__", "name__"),
        ("1st", "_1st"),
        ("über", "ber"),
        ("", "_"),
    ],
)
def test_a_variable_gets_a_label_that_is_free_and_valid(variable, label):
    families = written(one_subtask(of_function("seen", 1, (variable, "x"))))
    (family,) = (family for name, family in families.items() if name.endswith("_seen"))
    assert only(family)[0][label] == "x"


def test_any_text_of_an_author_can_be_read_back():
    texts = ['"', "\\", "\n", "a\\n", '\\"', "\r\u2028", "名前", "{}", ","]
    for text in texts:
        families = written(one_subtask(of_function("seen", 1, ("k", text))), filter_values=False, name=text)
        labels, _ = only(families["flink_taskmanager_job_task_operator_k_seen"])
        assert (labels["k"], labels["job_name"]) == (text, text)


@pytest.mark.parametrize(
    ("value", "told"), [(3, 3.0), (1e300, 1e300), (0.1, 0.1), (float("inf"), float("inf")), ((1 << 62), float(1 << 62))]
)
def test_numbers_survive(value, told):
    families = written(one_subtask(MetricSample("x", MetricKind.GAUGE, value, "map")))
    assert only(families["flink_taskmanager_job_task_operator_x"])[1] == told


def test_all_that_the_job_and_its_subtasks_report_is_in_the_catalog(view):
    own = [sample for sample in view.job if not sample.groups]
    own += [sample for task in view.tasks for one in task.subtasks for sample in one.samples if sample.operator is None]
    assert own
    for sample in own:
        assert BY_NAME[sample.name].kind is sample.kind
    assert len(BY_NAME) == len(SYSTEM_METRICS)


def test_the_job_managers_own_metrics():
    text = PrometheusText(prefix="flink", filter_values=True, host="h")
    text.add_job_manager([gauge("numRunningJobs", 2), counter("x", 1)])
    assert only(read(text.text())["flink_jobmanager_numRunningJobs"]) == ({"host": "h"}, 2)


def test_what_rocksdb_measures_has_the_names_that_flink_gives_it():
    operators = {"count": OperatorLabel("b" * 32, "count words")}
    samples = [
        MetricSample("rocksdb.estimate-num-keys", MetricKind.GAUGE, 7, "count", (("words seen", None),)),
        MetricSample("rocksdb.live-sst-files-size", MetricKind.GAUGE, 8, "count", (("column_family", "words seen"),)),
        MetricSample("rocksdb.block_cache_hit", MetricKind.GAUGE, 9, "count"),
    ]
    task = TaskMetricStore("count", "b" * 32, "count", 1, operators, [SubtaskMetricStore(0, "worker-1", samples)])

    found = written(JobMetricStore(True, [], [task]))

    operator = "flink_taskmanager_job_task_operator"
    (series,) = found[f"{operator}_words_seen_rocksdb_estimate_num_keys"][2].items()
    assert (dict(series[0])["operator_name"], series[1]) == ("count_words", 7)
    (series,) = found[f"{operator}_column_family_rocksdb_live_sst_files_size"][2].items()
    assert (dict(series[0])["column_family"], series[1]) == ("words_seen", 8)
    assert list(found[f"{operator}_rocksdb_block_cache_hit"][2].values()) == [9]
    assert figures(samples, task) == {
        "count_words.words_seen.rocksdb_estimate-num-keys": 7,
        "count_words.column_family.words_seen.rocksdb_live-sst-files-size": 8,
        "count_words.rocksdb_block_cache_hit": 9,
    }
