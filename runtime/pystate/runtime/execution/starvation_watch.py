"""Tells users that a running job stands still because slots hold all cores: executors that the others ran on were lost."""

from __future__ import annotations

import time
from collections.abc import Callable

_LOOK_EVERY_S = 5.0


class StarvationWatch:
    """Reports a lack of cores that two looks in a row have seen, and its end.

    Args:
        lack: Returns the sentence on which tasks wait for a core; None if none does.
        say: Is called with what the job waits for; with None when it waits no more.
        clock: Seconds.
    """

    def __init__(
        self,
        lack: Callable[[], str | None],
        say: Callable[[str | None], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lack = lack
        self._say = say
        self._clock = clock
        self._look_at = clock() + _LOOK_EVERY_S
        self._lacked = False
        self._said: str | None = None

    def look(self) -> None:
        """Look if it is time to."""
        if self._clock() < self._look_at:
            return
        self._look_at = self._clock() + _LOOK_EVERY_S
        found = self._lack()
        lacked, self._lacked = self._lacked, found is not None
        sentence = None if found is None else f"The job stands still: {found}."
        if sentence != self._said and (lacked or sentence is None):
            self._said = sentence
            self._say(sentence)
