"""The committables of one subtask of a sink that are still to be committed, by checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from pystate.common.errors import CommitError
from pystate.common.text.bounded_text import bounded_text, first_line
from pystate.common.user_code.user_errors import error_sentence
from pystate.connectors.sink import CommitRequest, Committer, JointCommitter
from pystate.core.metrics.metric import Counter, MetricGroup

_LOG = logging.getLogger(__name__)


class _Request(CommitRequest[Any]):
    """A committable in the hands of a committer.

    Attributes:
        committable: Its current value.
        retries: The number of failed tries.
        again: Whether another try is requested.
        dropped: It can't be committed, and the job continues without it.
        error: Why the job has to fail.
        known: Whether it had been committed before.
        why: Why the last try failed, if the committer gave a reason.
    """

    def __init__(self, committable: Any) -> None:
        self.committable = committable
        self.retries = 0
        self.why: BaseException | None = None
        self.begin()

    def begin(self) -> None:
        """Reset the result of the last try."""
        self.again = self.known = self.dropped = False
        self.error: BaseException | None = None

    def get_committable(self) -> Any:
        """Return the committable."""
        return self.committable

    def get_number_of_retries(self) -> int:
        """Return the number of failed tries."""
        return self.retries

    def signal_already_committed(self) -> None:
        """Signal that it had been committed before."""
        self.known = True

    def signal_failed_with_known_reason(self, error: BaseException) -> None:
        """Have it logged, counted and dropped."""
        self.dropped = True
        _LOG.error("A committable is dropped, as its sink says: %s", bounded_text(first_line(error)))

    def signal_failed_with_unknown_reason(self, error: BaseException) -> None:
        """Have the job fail."""
        self.error = error

    def retry_later(self, reason: BaseException | None = None) -> None:
        """Ask for another try."""
        self.again = True
        self.why = reason

    def update_and_retry_later(self, committable: Any) -> None:
        """Ask for another try with another committable."""
        self.committable = committable
        self.again = True


class Committables:
    """The committables of one subtask, oldest checkpoint first."""

    def __init__(self) -> None:
        self._waiting: dict[int, list[_Request]] = {}
        self._counters: dict[str, Counter] = {}

    def __len__(self) -> int:
        """Return the number of committables."""
        return sum(map(len, self._waiting.values()))

    def register(self, group: MetricGroup) -> None:
        """Register the metrics of Flink's committers (SinkCommitterMetricGroup)."""
        names = ("totalCommittables", "successfulCommittables", "alreadyCommittedCommittables")
        for name in (*names, "failedCommittables", "retriedCommittables"):
            self._counters[name] = group.counter(name)
        group.gauge("pendingCommittables", lambda: len(self))

    @property
    def why(self) -> BaseException | None:
        """Why the oldest one had to be tried again; None if no reason was given."""
        waiting = (request.why for number in sorted(self._waiting) for request in self._waiting[number])
        return next(waiting, None)

    def add(self, checkpoint_id: int, committables: Sequence[Any]) -> None:
        """Add committables to commit once a checkpoint is complete."""
        if committables:
            self._waiting.setdefault(checkpoint_id, []).extend(map(_Request, committables))
            self._count("totalCommittables", len(committables))

    def snapshot(self) -> list[tuple[int, list[Any]]]:
        """Return all committables as plain values, for `restore`."""
        return [(number, [one.committable for one in requests]) for number, requests in sorted(self._waiting.items())]

    def restore(self, of_subtask: Sequence[tuple[int, list[Any]]]) -> None:
        """Take over what a subtask's `snapshot` returned."""
        for checkpoint_id, committables in of_subtask:
            self._waiting.setdefault(checkpoint_id, []).extend(map(_Request, committables))

    def commit(self, committer: Committer[Any], checkpoint_id: int | None, where: str) -> bool:
        """Commit the committables of checkpoints up to the given one (None: all); return whether any requests another try.

        If one requests it, the later ones wait, so the order of the output is kept.

        Raises:
            CommitError: One can't be committed; those that could be aren't kept any more.
        """
        numbers = [number for number in sorted(self._waiting) if checkpoint_id is None or number <= checkpoint_id]
        if isinstance(committer, JointCommitter) and numbers:
            self._waiting[numbers[-1]] = [request for number in numbers for request in self._waiting.pop(number)]
            numbers = numbers[-1:]
        for number in numbers:
            if self._commit_one(committer, number, where):
                return True
        return False

    def _commit_one(self, committer: Committer[Any], number: int, where: str) -> bool:
        requests = self._waiting[number]
        for request in requests:
            request.begin()
        try:
            committer.commit(list(requests))
        except Exception as error:
            raise _failure(number, error, where) from error
        left = [request for request in requests if request.again or request.error is not None]
        self._count("successfulCommittables", sum(not (one.known or one.dropped) for one in requests) - len(left))
        self._count("alreadyCommittedCommittables", sum(one.known for one in requests))
        self._count("failedCommittables", sum(one.dropped for one in requests))
        if left:
            self._waiting[number] = left
        else:
            del self._waiting[number]
        for request in left:
            if request.error is not None:
                raise _failure(number, request.error, where) from request.error
            request.retries += 1
        self._count("retriedCommittables", len(left))
        return bool(left)

    def _count(self, name: str, count: int) -> None:
        if name in self._counters and count > 0:
            self._counters[name].inc(count)


def _failure(number: int, error: BaseException, where: str) -> CommitError:
    message = f"The sink could not commit checkpoint {number}: {error_sentence(error)}"
    return CommitError(bounded_text(message), where=where, hint=getattr(error, "hint", None))
