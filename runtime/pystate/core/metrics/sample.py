"""Metric samples: the values of metrics that slots report and clients request.

A sample is one metric at one moment. It is plain data, so that it can be exchanged between all processes.
"""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pystate.common.text.plain_data import PlainDataError


class MetricKind(Enum):
    """The kinds of metrics."""

    COUNTER = "counter"
    GAUGE = "gauge"
    METER = "meter"
    DISTRIBUTION = "distribution"


MetricValue = int | float | bool | str | dict[str, Any]
"""A number or a text; of a meter `rate` and `count`, of a distribution `count`, `sum`, `min` and `max`."""

Groups = tuple[tuple[str, str | None], ...]
"""The user groups of a metric; the value is None for a group that is only a name."""

SampleKey = tuple[str | None, Groups, str, MetricKind]
"""The key that identifies a sample within its subtask."""

MAX_TEXT = 256
_INT_MAX = (1 << 63) - 1
_LEFT_OUT_OF_IDS = re.compile(r"[ .:,]")


@dataclass(frozen=True)
class MetricSample:
    """One metric at one moment.

    Attributes:
        name: Its name within its group.
        kind: Its kind.
        value: Its value.
        operator: The uid of the operator it belongs to; None for one of the whole subtask, or of the whole job.
        groups: Its groups.
    """

    name: str
    kind: MetricKind
    value: MetricValue
    operator: str | None = None
    groups: Groups = ()

    @property
    def key(self) -> SampleKey:
        """The key that identifies it within its subtask."""
        return self.operator, self.groups, self.name, self.kind

    @property
    def path(self) -> list[str]:
        """The names of its groups, and its name."""
        return [*(part for group in self.groups for part in group if part is not None), self.name]

    def figures(self) -> dict[str, int | float | bool | str]:
        """Return its single values, by the suffix of their names."""
        value = self.value
        if not isinstance(value, dict):
            return {"": value}
        if self.kind is MetricKind.METER:
            return {"": value["rate"], "_count": value["count"]}
        count, total = value["count"], value["sum"]
        return {f"_{name}": value[name] for name in ("count", "sum", "min", "max")} | {
            "_mean": total / count if count else 0.0
        }

    def to_plain(self) -> list[Any]:
        """Return it as plain data."""
        return [self.operator, [list(group) for group in self.groups], self.name, self.kind.value, self.value]

    @classmethod
    def from_plain(cls, plain: Any) -> MetricSample:
        """Rebuild it from what `to_plain` gave.

        Raises:
            PlainDataError: It is something else.
        """
        try:
            operator, groups, name, kind, value = plain
            return cls(str(name), MetricKind(kind), value, operator, tuple((key, inner) for key, inner in groups))
        except (TypeError, ValueError) as error:
            message = f"of a sample can't be read: {error}"
            raise PlainDataError(message) from error


def gauge(name: str, value: MetricValue) -> MetricSample:
    """Return a gauge sample."""
    return MetricSample(name, MetricKind.GAUGE, value)


def counter(name: str, value: int) -> MetricSample:
    """Return the sample of a monotonic counter."""
    return MetricSample(name, MetricKind.COUNTER, value)


def plain_value(value: Any) -> int | float | bool | str:
    """Return the value of a user's metric in a form that can be sent: numbers of any library become Python's.

    A whole number past 64 bits becomes a float, anything that is neither number nor truth a short text.
    """
    if isinstance(value, bool):
        return value
    if isinstance(value, numbers.Integral):
        whole = int(value)
        return whole if -_INT_MAX <= whole <= _INT_MAX else _as_float(whole)
    if isinstance(value, numbers.Real):
        return _as_float(value)
    return plain_text(str(value))


def plain_text(text: str) -> str:
    """Return a user's text, truncated, and without characters that UTF-8 can't encode."""
    return text[:MAX_TEXT].encode("utf-8", "replace").decode("utf-8")


def _as_float(value: numbers.Real | int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, 1 if value >= 0 else -1)  # type: ignore[operator]


def identifier_part(text: str) -> str:
    """Return a name in the form of ids in Flink's REST: `Source: words` becomes `Source__words`."""
    return _LEFT_OUT_OF_IDS.sub("_", text)


def value_text(value: int | float | bool | str) -> str:
    """Return a value as text, as in Flink's REST."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return str(value)


def sorted_figures(samples: Iterable[MetricSample]) -> Mapping[str, int | float | bool | str]:
    """Return all values of an operator's samples by group and metric name, joined by dots."""
    found = {".".join(sample.path) + end: value for sample in samples for end, value in sample.figures().items()}
    return dict(sorted(found.items()))
