"""Metrics in the Prometheus text format 0.0.4, with the names of Flink's reporter."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from prometheus_client import generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from pystate.core.metrics.metric_catalog import system_metric
from pystate.core.metrics.sample import MetricKind, MetricSample
from pystate.core.metrics.store import JobMetricStore, TaskMetricStore

JOB_UP = "pystate_job_up"

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9:_]")
_NOT_IN_LABELS = re.compile(r"[^a-zA-Z0-9_]")
_JOB_MANAGER, _JOB = "jobmanager", "jobmanager_job"
_TASK, _OPERATOR = "taskmanager_job_task", "taskmanager_job_task_operator"

Labels = Mapping[str, str]


class PrometheusText:
    """Collects samples and formats them.

    Args:
        prefix: The prefix of names.
        filter_values: Whether label values keep letters, digits, colons and underscores only.
        host: This machine's name.
    """

    def __init__(self, *, prefix: str, filter_values: bool, host: str) -> None:
        self._prefix = _NOT_IN_NAMES.sub("_", prefix)
        self._filter = filter_values
        self._host = host
        self._families: dict[str, _Family] = {}

    def add_job_manager(self, samples: Iterable[MetricSample]) -> None:
        """Add the metrics of the job manager."""
        for sample in samples:
            self._add(_JOB_MANAGER, sample, {"host": self._host})

    def add_job(self, job_id: str, name: str, view: JobMetricStore, *, whole: bool) -> None:
        """Add the metrics of a job.

        Args:
            job_id: Its id.
            name: Its name.
            view: Its metrics.
            whole: Whether more is to be told than whether its driver answers.
        """
        job = {"job_id": job_id, "job_name": name}
        self._put(JOB_UP, "Whether the job's driver answers.", "gauge", job, 1.0 if view.is_up else 0.0)
        if not whole:
            return
        for sample in view.job:
            self._add(_JOB, sample, {"host": self._host, **job})
        for task in view.tasks:
            self._add_task(job, task)

    def text(self) -> str:
        """Return the text of all families of metrics."""
        return "".join(family.text() for family in self._families.values())

    def _add_task(self, job: Labels, task: TaskMetricStore) -> None:
        for subtask in task.subtasks:
            # stages upstream of the slots run on any executor
            where = {} if subtask.host is None else {"host": subtask.host, "tm_id": f"slot-{subtask.index}"}
            index = {"task_id": task.vertex_id, "task_name": task.name, "subtask_index": str(subtask.index)}
            for sample in subtask.samples:
                labels = {**where, **job, **index}
                if sample.operator is None:
                    self._add(_TASK, sample, labels)
                else:
                    label = task.label_of(sample.operator)
                    labels["operator_id"], labels["operator_name"] = label.id, label.name
                    self._add(_OPERATOR, sample, labels)

    def _add(self, scope: str, sample: MetricSample, labels: dict[str, str]) -> None:
        names = [self._prefix, scope]
        for group, value in sample.groups:
            names.append(group)
            if value is not None:
                labels[_new_label(group, labels)] = value
        # groups of a job's are its author's, the job manager's own are ours
        known = system_metric(sample.name, () if scope == _JOB_MANAGER else sample.groups)
        for end, figure in sample.figures().items():
            if isinstance(figure, str):
                continue  # a text isn't a number, and a 0 instead would look like a real value
            name = "_".join([*names, sample.name]) + end
            scope_text = f"{sample.name}{end} (scope: {scope})"
            meaning = scope_text if known is None else f"{known.meaning} Unit: {known.unit}."
            # an author's counter may go down, so only ours are counters to Prometheus
            kind = "counter" if known is not None and sample.kind is MetricKind.COUNTER else "gauge"
            self._put(name, meaning, kind, labels, float(figure))

    def _put(self, name: str, meaning: str, kind: str, labels: Labels, value: float) -> None:
        name = _valid_name(name)
        if name not in self._families:
            self._families[name] = _Family(name, meaning, kind)
        shown = {label: _NOT_IN_NAMES.sub("_", text) if self._filter else text for label, text in labels.items()}
        self._families[name].add(shown, value)


class _Family(Collector):
    """The series of one name."""

    def __init__(self, name: str, meaning: str, kind: str) -> None:
        # the library would append `_total` to the name of a counter, which Flink's names don't have
        self._metric = Metric(name, meaning, "gauge")
        self._kind = kind
        self._known: set[frozenset[tuple[str, str]]] = set()

    def add(self, labels: Labels, value: float) -> None:
        """Add a series, unless it exists: metrics whose names only differ in replaced characters coincide here."""
        series = frozenset(labels.items())
        if series not in self._known:
            self._known.add(series)
            self._metric.add_sample(self._metric.name, dict(labels), value)

    def collect(self) -> Iterable[Metric]:
        """Return the family as an object of the library."""
        return [self._metric]

    def text(self) -> str:
        """Return its lines."""
        head = f"# TYPE {self._metric.name} "
        return generate_latest(self).decode().replace(f"{head}gauge\n", f"{head}{self._kind}\n", 1)


def _valid_name(name: str) -> str:
    name = _NOT_IN_NAMES.sub("_", name)
    return f"_{name}" if name[:1].isdigit() else name


def _new_label(name: str, taken: Labels) -> str:
    """Return a label for a user variable; if it is taken, with the prefix that Prometheus itself would use."""
    label = _NOT_IN_LABELS.sub("_", name).lstrip("_") or "_"  # two underscores in front are Prometheus's own
    if label[:1].isdigit():
        label = f"_{label}"
    while label in taken or label in ("le", "quantile"):
        label = f"exported_{label}"
    return label
