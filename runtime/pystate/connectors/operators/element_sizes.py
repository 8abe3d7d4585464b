"""Estimates the size of a source's elements, so that buffers and epochs are bounded in bytes, too."""

from __future__ import annotations

import sys
from typing import Any

from pystate.common.user_code.program_classes import pickled

MEASURE_EVERY = 64
"""One element in so many is measured: that takes as long as all the rest of its way."""

_WEIGHT = 0.25


class ElementSizes:
    """A running average of pickled sizes.

    Args:
        most_bytes: The bound in bytes.

    Attributes:
        most_bytes: As given; may be changed.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._average = 0.0

    def measure(self, element: Any) -> None:
        """Add an element's size to the average."""
        try:
            size = len(pickled(element))
        except Exception:  # its sender reports why it can't be sent
            size = sys.getsizeof(element)
        self._average = size if self._average == 0 else (1 - _WEIGHT) * self._average + _WEIGHT * size

    def bound(self, most: int) -> int:
        """Return the allowed number of elements, from 1 to `most`, by their average size."""
        if self._average * most <= self.most_bytes:
            return most
        return max(1, int(self.most_bytes / self._average))
