"""Which of the slow tests `.ci/run` runs, and in which order: those of `slow_in_ci.txt` that fit into the time it has."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

SELECTION = Path(__file__).with_name("slow_in_ci.txt")
BUDGET_S = 64 * 60
"""How many seconds the lines of the selection may add up to.

CI takes half as long for them, since a test leaves a processor to those that it starts, and all share a session of Spark. So
they are done well within what the other tests leave of sixty minutes; one for which there is no time is skipped by its name.
"""


def read_selection(path: Path = SELECTION) -> dict[str, float]:
    """Return test -> about how many seconds it takes, in the order of the file.

    Raises:
        UsageError: A test is there twice.
    """
    found: dict[str, float] = {}
    for line in path.read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            seconds, name = line.split(maxsplit=1)
            if name in found:
                message = f"{path.name} names {name} twice"
                raise pytest.UsageError(message)
            found[name] = float(seconds)
    return found


class SlowSelection:
    """A plugin of pytest: runs the selection alone, in its order.

    A test that would end after the limit is skipped, by its name; those after it that are shorter may still run.

    Args:
        limit_s: How long the run may take, in seconds.
        selection: Test -> seconds.
    """

    def __init__(self, limit_s: float, selection: dict[str, float]) -> None:
        self._limit_s = limit_s
        self._selection = selection
        self._end = time.monotonic() + limit_s

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        """Keep what is selected.

        Raises:
            UsageError: A selected test isn't there, or isn't slow.
        """
        by_name = {item.nodeid: item for item in items}
        wrong = [name for name in self._selection if name not in by_name or not by_name[name].get_closest_marker("slow")]
        if wrong:
            message = f"{SELECTION.name} names what is no slow test: {', '.join(wrong)}"
            raise pytest.UsageError(message)
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in self._selection])
        items[:] = [by_name[name] for name in self._selection]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: Any) -> None:
        """Skip what doesn't fit."""
        seconds = self._selection[item.nodeid]
        left = self._end - time.monotonic()
        if seconds > left:
            pytest.skip(f"takes about {seconds:g} s, and of {self._limit_s:.0f} s there are {max(left, 0):.0f} s left")
