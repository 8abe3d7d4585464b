"""Where pystate answers otherwise than PyFlink on purpose: which elements, and why. What isn't here is equal."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Difference:
    """What one stream of a program has otherwise.

    Attributes:
        topic: The words by which a row of the table in docs/time.md or docs/pyflink.md is found that says why.
        only_here: Elements that PyFlink doesn't give, and how many.
        only_there: Elements that PyFlink alone gives.
        varies: PyFlink gives the same as we do at times.
        here: All that we answer, where what PyFlink does changes from run to run.
    """

    topic: str
    only_here: dict[str, int] = field(default_factory=dict)
    only_there: dict[str, int] = field(default_factory=dict)
    varies: bool = False
    here: dict[str, int] | None = None

    def expected(self, there: dict[str, int]) -> dict[str, int]:
        """Return what pystate has to answer, given what PyFlink does."""
        if self.here is not None:
            return self.here
        if self.varies and self.only_there.keys().isdisjoint(there) and self.only_here.items() <= there.items():
            return there
        lost = Counter(there)
        lost.subtract(self.only_there)
        if min(lost.values(), default=0) < 0:
            message = f"PyFlink no longer answers {self.only_there}: {there}"
            raise AssertionError(message)
        return dict(sorted((+(lost + Counter(self.only_here))).items()))


def _merged(*elements: Any) -> Difference:
    return Difference(_MERGED, here=dict(sorted((json.dumps(element), 1) for element in elements)))


def _pair(name: str, time: int, number: int) -> dict[str, Any]:
    return {"tuple": [name, time, number]}


def _times(values: list[str], there: str, here: str) -> tuple[dict[str, int], dict[str, int]]:
    here_counts = Counter(json.dumps(value.format(here)) for value in values)
    return dict(here_counts), dict(Counter(json.dumps(value.format(there)) for value in values))


def _result(key: str, start: int, end: int, text: str) -> str:
    value: Any = {"tuple": [key, start, end, text]}
    return json.dumps(value)


_NESTED = "timers that a timer sets or deletes while event time moves"
_NO_TIME = "an element without a time"
_MERGED = "sessions that merge, or are made longer"
_CACHED = "a time to live that is over while the state is in use"
_MIN = "-9223372036854775808"
_NAMES = ["a", "b", "a", "c", "a", "b", "c"]

DIFFERENCES = {
    "count_and_global_windows.tumbling_continuous": Difference(
        _NESTED, {'"a [10, 1020, 3100]"': 1, '"a [10001]"': 1, '"b [2040, 9999]"': 1}
    ),
    "count_and_global_windows.session_continuous": Difference(_NESTED, {'"a [10, 1020, 3100]"': 2, '"b [9999]"': 1}),
    "timer_kinds.a_timer_sets_itself": Difference(
        _NESTED,
        {f'"{name}"': 1 for name in ("a 0", "b 0", "c 0")},
        {f'"{name}"': 1 for name in ("a 2000", "b 2000", "c 5000")},
    ),
    "timer_kinds.a_timer_deletes_the_next": Difference(
        _NESTED, only_there={f'"{name} 20000"': 1 for name in ("a", "b", "c")}
    ),
    "lateness.continuous_fires": Difference(_NESTED, {'"a 6000 [7000] 9223372036854775807"': 1}),
    "event_windows.session_aggregate_that_merges": Difference(
        _MERGED, {_result("a", 0, 6000, "[70]"): 1}, {_result("a", 0, 6000, "[60]"): 1}, varies=True
    ),
    "merging_sessions.bridged_aggregate": _merged("109", "2", "16"),
    "merging_sessions.bridged_reduce": _merged(_pair("a", 4100, 109), _pair("b", 1000, 2), _pair("b", 9000, 16)),
    "merging_sessions.bridged_reduce_with_window": _merged("a 1000 5100 [109]", "b 1000 2000 [2]", "b 9000 10000 [16]"),
    "merging_sessions.longer_and_shorter": _merged("a 1000 1500 [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5]"),
    "merging_sessions.longer_and_shorter_reduce": _merged(_pair("a", 1000, 45)),
    "streams.connected:process": Difference(_NO_TIME, *_times([f"1 {number} {{}}" for number in (1, 2, 3)], _MIN, "None")),
    "timers.no_timestamps": Difference(_NO_TIME, *_times([f"{name} {{}} True" for name in _NAMES], _MIN, "None")),
    "keyed.ttl_that_ends": Difference(
        _CACHED,
        {"\"('a', 2) None [] []\"": 1, "\"('a', 3) None [] []\"": 1},
        {"\"('a', 2) 1 [1] [(1, 2)]\"": 1, "\"('a', 3) 1 [1, 2] [(1, 2), (2, 4)]\"": 1},
    ),
}

PENDING: dict[str, str] = {}
"""Programs that pystate can't run yet, and what is missing."""
