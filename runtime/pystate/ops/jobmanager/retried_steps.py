"""Steps of supervision that the operating system refuses for a while, as on a full disk, are done until it lets them."""

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
    """This job manager acts no more; the next one goes on with what is due."""


class RetriedSteps:
    """Does steps until they succeed. Safe to use from many threads.

    Args:
        closed: Set when this job manager acts no more.
    """

    def __init__(self, closed: threading.Event | None = None) -> None:
        self._closed = closed or threading.Event()

    def do(self, what: str, act: Callable[[], T], wake: threading.Event | None = None, *, said: bool = False) -> T:
        """Do a step until it succeeds; the log has a line when it fails first, and another one when it went on.

        Args:
            what: The step for people, as the beginning of "... is tried until it can be done".
            act: The step. It may be done again wherever in it the error came from.
            wake: What is worth another try at once when it is set.
            said: Whether the log has the first line already.

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
        """Do a step; where it fails, go on with it on a thread, so that nobody else has to wait.

        Args:
            what: The step for people, as the beginning of "... is tried until it can be done".
            act: The step. It may be done again wherever in it the error came from.
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
        """Do a step that has failed, and whose failure was told, on a thread of its own until it succeeds."""

        def guarded() -> None:
            try:
                self.do(what, act, said=True)
            except LeadershipLostError as error:
                logger.warning("%s is left to others: %s", what, error.message)

        threading.Thread(target=guarded, name=thread, daemon=True).start()
