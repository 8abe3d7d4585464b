"""Strategies of Hypothesis: elements by their type, watermarks, and runs of an operator in which something fails.

Hypothesis isn't installed with pystate: `pip install hypothesis`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from pystate.common.row import Row
from pystate.common.time import Instant
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.common.type_rules import INTEGER_RANGES, is_byte_array
from pystate.testing.steps import Checkpoint, Elements, EpochEnd, EpochFailure, JobFailure, ProcessingTime, Step, Watermark

__all__ = ["elements", "failures", "runs", "timestamps", "watermarks"]

_YEAR = 365 * 86_400_000
_FEW = 5
_BASIC: dict[TypeKind, Callable[[], SearchStrategy[Any]]] = {
    TypeKind.STRING: st.text,
    TypeKind.BOOLEAN: st.booleans,
    TypeKind.FLOAT: lambda: st.floats(width=32),
    TypeKind.DOUBLE: st.floats,
    TypeKind.CHAR: lambda: st.text(min_size=1, max_size=1),
    TypeKind.BIG_INT: st.integers,
    TypeKind.BIG_DEC: lambda: st.decimals(allow_nan=False, allow_infinity=False),
    TypeKind.SQL_DATE: st.dates,
    TypeKind.SQL_TIME: st.times,
    TypeKind.SQL_TIMESTAMP: st.datetimes,
    TypeKind.INSTANT: lambda: st.builds(Instant, st.integers(-(10**9), 10**10), st.integers(0, 999_999_999)),
    TypeKind.PICKLED_BYTE_ARRAY: lambda: st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
        lambda inner: (
            st.lists(inner, max_size=_FEW) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner, max_size=_FEW)
        ),
        max_leaves=_FEW,
    ),
}


def elements(type_info: TypeInformation) -> SearchStrategy[Any]:
    """Generate elements of a type. None of them is None, nor is a part of one.

    Args:
        type_info: The type.
    """
    kind = type_info.kind
    if kind in INTEGER_RANGES:
        return st.integers(*INTEGER_RANGES[kind])
    if kind in _BASIC:
        return _BASIC[kind]()
    if is_byte_array(type_info):
        return st.binary()
    parts = [elements(part) for part in type_info.elements]
    if kind is TypeKind.TUPLE:
        return st.tuples(*parts)
    if kind is TypeKind.ROW:
        names = type_info.names
        return st.tuples(*parts).map(lambda values: Row(*values) if names is None else Row.of_fields(names, list(values)))
    if kind is TypeKind.MAP:
        return st.dictionaries(*parts, max_size=_FEW)
    return st.lists(parts[0], max_size=_FEW)


def timestamps(start: int = 0, end: int = _YEAR) -> SearchStrategy[int]:
    """Generate times of elements in ms since 1970, in any order: some will be late."""
    return st.integers(start, end)


def watermarks(start: int = 0, end: int = _YEAR, *, max_size: int = 10) -> SearchStrategy[list[int]]:
    """Generate watermarks in ms since 1970, each later than the one before."""
    return st.lists(timestamps(start, end), max_size=max_size, unique=True).map(sorted)


def failures() -> SearchStrategy[EpochFailure | JobFailure]:
    """Generate failures: of a Python worker in an epoch, or of the job."""
    return st.sampled_from([EpochFailure(), JobFailure()])


@st.composite
def runs(
    draw: st.DrawFn,
    of: SearchStrategy[Any],
    *,
    times: SearchStrategy[int | None] | None = None,
    fails: bool = True,
    max_steps: int = 12,
) -> list[Step]:
    """Generate the steps of a run, for `run_steps`: batches, epochs that end, checkpoints, times, and what fails.

    Event time and the clock never go back.

    Args:
        draw: Given by Hypothesis.
        of: The elements.
        times: The times of elements, such as `timestamps()`. With them there are watermarks and a clock; None for neither.
        fails: Whether steps fail.
        max_steps: The maximum number of steps.
    """
    kinds: list[SearchStrategy[Any]] = [st.lists(of, min_size=1, max_size=_FEW), st.sampled_from([EpochEnd(), Checkpoint()])]
    if fails:
        kinds.append(failures())
    if times is not None:
        kinds += [st.just(Watermark), st.just(ProcessingTime)]
    chosen = draw(st.lists(st.one_of(kinds), max_size=max_steps))
    moments = {kind: _ascending(draw, chosen.count(kind)) for kind in (Watermark, ProcessingTime)}
    steps: list[Step] = []
    for one in chosen:
        if isinstance(one, list):
            size = len(one)
            steps.append(Elements(one, None if times is None else draw(st.lists(times, min_size=size, max_size=size))))
        elif one is Watermark or one is ProcessingTime:
            steps.append(one(next(moments[one])))
        else:
            steps.append(one)
    return steps


def _ascending(draw: st.DrawFn, count: int) -> Iterator[int]:
    return iter(sorted(draw(st.lists(timestamps(), min_size=count, max_size=count))))
