"""Retries supervision steps that fail for a while, e.g. because of a full disk, until they succeed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TypeVar

from pystate.ops.jobmanager.leadership import LeadershipInDoubtError, LeadershipLostError

logger = logging.getLogger(__name__)

T = TypeVar("T")

_FOR_A_WHILE = (OSError, LeadershipInDoubtError)
_FIRST_DELAY_SECONDS = 0.1
_LONGEST_DELAY_SECONDS = 5.0


class JobManagerEndsError(LeadershipLostError):
    """This job manager stops acting; the next one continues pending work."""


class RetriedSteps:
    """Retries steps until they succeed. Thread-safe.

    Args:
        closed: Set when this job manager stops acting.
    """

    def __init__(self, closed: threading.Event | None = None) -> None:
        self._closed = closed or threading.Event()

    def do(self, what: str, act: Callable[[], T], wake: threading.Event | None = None, *, said: bool = False) -> T:
        """Retry a step until it succeeds; logs the first failure, and the final success.

        Args:
            what: The step, as the beginning of "... is tried until it can be done".
            act: The step. It may be repeated wherever the error came from.
            wake: Triggers another try at once when it is set.
            said: Whether the first failure is already logged.

        Raises:
            LeadershipLostError: Another job manager leads, or this one ends.
        """
        delay, tries, failed = _FIRST_DELAY_SECONDS, 1, said
        while True:
            woken = wake is not None and wake.is_set()
            try:
                result = act()
            except _FOR_A_WHILE as error:
                if not failed:
                    logger.error("%s is tried until it can be done: %s", what, error)
                failed = True
            else:
                if failed:
                    logger.info("%s is done, at try %d", what, tries)
                return result
            tries += 1
            (self._closed if wake is None or woken else wake).wait(delay)
            if self._closed.is_set():
                message = f"This job manager ended before a step was done: {what}."
                raise JobManagerEndsError(message)
            delay = min(2 * delay, _LONGEST_DELAY_SECONDS)

    def run_or_retry(self, what: str, act: Callable[[], object], thread: str) -> None:
        """Run a step; if it fails, retry it on a thread, so that the caller needn't wait.

        Args:
            what: The step, as the beginning of "... is tried until it can be done".
            act: The step. It may be repeated wherever the error came from.
            thread: The name of the thread.

        Raises:
            LeadershipLostError: Another job manager leads.
        """
        try:
            act()
        except _FOR_A_WHILE as error:
            logger.error("%s is tried until it can be done: %s", what, error)
            self.later(what, act, thread)

    def later(self, what: str, act: Callable[[], object], thread: str) -> None:
        """Retry a step, whose failure is already logged, on a thread of its own until it succeeds."""

        def guarded() -> None:
            try:
                self.do(what, act, said=True)
            except LeadershipLostError as error:
                logger.warning("%s is left to others: %s", what, error.message)

        threading.Thread(target=guarded, name=thread, daemon=True).start()
