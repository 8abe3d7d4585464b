"""The clock of the harnesses of a test."""

from __future__ import annotations

from pystate.testing.harness import OperatorTestHarness


class HarnessClock:
    """Sets the processing time of several harnesses at once. It stands still otherwise, at 0 to begin with.

    Attributes:
        now: The processing time, ms since 1970.
    """

    def __init__(self) -> None:
        self.now = 0
        self._harnesses: list[OperatorTestHarness] = []

    def drive(self, harness: OperatorTestHarness) -> None:
        """Set the clock of a harness, too, now and from now on."""
        self._harnesses.append(harness)
        harness.set_processing_time(self.now)

    def set(self, milliseconds: int) -> None:
        """Set the time, ms since 1970, and fire the timers that are due."""
        self.now = milliseconds
        for harness in self._harnesses:
            harness.set_processing_time(milliseconds)

    def advance(self, milliseconds: int) -> None:
        """Let time pass, and fire the timers that are due."""
        self.set(self.now + milliseconds)
