"""Metrics in the text format of Prometheus, version 0.0.4, under the names that Flink's own reporter gives them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

from pystate.metrics.catalog import system_metric
from pystate.metrics.sample import MetricKind, MetricSample
from pystate.metrics.store import JobMetricStore, TaskMetricStore

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
JOB_UP = "pystate_job_up"

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9:_]")
_NOT_IN_LABELS = re.compile(r"[^a-zA-Z0-9_]")
_JOB_MANAGER, _JOB = "jobmanager", "jobmanager_job"
_TASK, _OPERATOR = "taskmanager_job_task", "taskmanager_job_task_operator"

Labels = Mapping[str, str]


class PrometheusText:
    """Gathers samples and writes them.

    Args:
        prefix: What names begin with.
        filter_values: Whether label values keep letters, digits, colons and underscores only.
        host: This machine's name.
    """

    def __init__(self, *, prefix: str, filter_values: bool, host: str) -> None:
        self._prefix = _NOT_IN_NAMES.sub("_", prefix)
        self._filter = filter_values
        self._host = host
        self._heads: dict[str, tuple[str, str]] = {}
        self._values: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}

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
        """Return everything, a family of metrics after the other."""
        lines = []
        for name, (meaning, kind) in self._heads.items():
            lines += [f"# HELP {name} {_escaped(meaning)}", f"# TYPE {name} {kind}"]
            for labels, value in self._values[name].items():
                told = ",".join(f'{label}="{_escaped(text, quotes=True)}"' for label, text in labels)
                lines.append(f"{name}{{{told}}} {_number(value)}" if told else f"{name} {_number(value)}")
        return "".join(f"{line}\n" for line in lines)

    def _add_task(self, job: Labels, task: TaskMetricStore) -> None:
        for subtask in task.subtasks:
            # stages in front of the slots run wherever Spark likes
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
                continue  # a text is no number, and nobody could tell a 0 in its place from a real one
            name = "_".join([*names, sample.name]) + end
            scope_text = f"{sample.name}{end} (scope: {scope})"
            meaning = scope_text if known is None else f"{known.meaning} Unit: {known.unit}."
            # an author's counter may go down, so only ours are counters to Prometheus
            kind = "counter" if known is not None and sample.kind is MetricKind.COUNTER else "gauge"
            self._put(name, meaning, kind, labels, float(figure))

    def _put(self, name: str, meaning: str, kind: str, labels: Labels, value: float) -> None:
        name = _valid_name(name)
        self._heads.setdefault(name, (meaning, kind))
        shown = tuple((label, _NOT_IN_NAMES.sub("_", text) if self._filter else text) for label, text in labels.items())
        # two metrics whose names differ in other characters only are one here, and a series must not be there twice
        self._values.setdefault(name, {}).setdefault(tuple(sorted(shown)), value)


def _valid_name(name: str) -> str:
    name = _NOT_IN_NAMES.sub("_", name)
    return f"_{name}" if name[:1].isdigit() else name


def _new_label(name: str, taken: Labels) -> str:
    """Return a label for an author's variable; one that is taken gets the mark that Prometheus itself would give it."""
    label = _NOT_IN_LABELS.sub("_", name).lstrip("_") or "_"  # two underscores in front are Prometheus's own
    if label[:1].isdigit():
        label = f"_{label}"
    while label in taken or label in ("le", "quantile"):
        label = f"exported_{label}"
    return label


def _escaped(text: str, *, quotes: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quotes else text


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
