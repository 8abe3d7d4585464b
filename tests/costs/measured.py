"""What a path is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

RECORDS = 400
"""How many a run has, where it has records."""


@dataclass(frozen=True)
class Measured:
    """A path.

    Attributes:
        name: What the recorded costs call it.
        units: How many records, entries or accesses a run has.
        run: Runs it.
        close: Ends it.
    """

    name: str
    units: int
    run: Callable[[], Any]
    close: Callable[[], Any] = lambda: None
