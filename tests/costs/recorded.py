"""The costs that are held: how many times the steps of the floor's loop a path takes, per record, entry or access."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.costs.counting import floor, steps_of
from tests.costs.measured import RECORDS, Measured
from tests.costs.paths import paths

FILE = Path(__file__).with_name("recorded.json")
WARM = 2
"""Runs before the one that counts: caches fill, and state is there."""


def cost_of(path: Measured) -> float:
    """Return what a run costs, in loops of the floor."""
    for _ in range(WARM):
        path.run()
    loop = steps_of(floor(RECORDS)) / RECORDS
    return round(steps_of(path.run) / path.units / loop, 3)


def costs(folder: Path) -> dict[str, float]:
    """Return the costs of all paths by name; their files are below a folder."""
    found = {}
    for path in paths(folder):
        found[path.name] = cost_of(path)
        path.close()
    return found


def python_version() -> str:
    """Return which interpreter counts: others have other instructions."""
    return f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}"


def recorded() -> tuple[str, dict[str, float]]:
    """Return the interpreter that was counted in, and the costs."""
    plain: dict[str, Any] = json.loads(FILE.read_text())
    return plain["python"], plain["costs"]


def dearer(held: dict[str, float], found: dict[str, float], share: float) -> list[str]:
    """Return which paths cost more than they may, for people.

    Args:
        held: The recorded costs.
        found: Those of now.
        share: By how much more a path may cost, 0.1 for a tenth.
    """
    return [
        f"{name}: {cost:.3f} loops, {cost / held[name] - 1:+.0%} of the recorded {held[name]:.3f}"
        for name, cost in found.items()
        if cost > held[name] * (1 + share)
    ]
