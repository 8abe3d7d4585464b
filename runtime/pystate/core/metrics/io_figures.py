"""I/O metrics of subtasks, by the names of a vertex in Flink's REST."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pystate.core.metrics.sample import MetricSample

_RECORDS = {"numRecordsIn": "read-records", "numRecordsOut": "write-records"}
_IO = {
    "numBytesIn": "read-bytes",
    "numBytesOut": "write-bytes",
    "accumulateIdleTimeMs": "accumulated-idle-time",
    "accumulateBusyTimeMs": "accumulated-busy-time",
    "accumulateBackPressuredTimeMs": "accumulated-backpressured-time",
}


def io_figures(samples: Iterable[MetricSample]) -> dict[str, int]:
    """Return the total I/O metrics of subtasks, by REST's names; unknown ones are missing.

    Args:
        samples: Those of one subtask, or of several.
    """
    return _totals(samples, {**_RECORDS, **_IO})


def bytes_and_times(samples: Iterable[MetricSample]) -> dict[str, int]:
    """Return the same without record counts; unknown ones are 0."""
    return {**dict.fromkeys(_IO.values(), 0), **_totals(samples, _IO)}


def _totals(samples: Iterable[MetricSample], names: Mapping[str, str]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for sample in samples:
        if sample.operator is None and sample.name in names and isinstance(sample.value, int):
            name = names[sample.name]
            totals[name] = totals.get(name, 0) + sample.value
    return totals
