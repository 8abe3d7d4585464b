"""Runs the enumerator of a source, in the slot of the source's first subtask.

Readers of all subtasks reach it by messages, each of which names the last barrier of its reader. If the enumerator's last
barrier differs, no message is accepted and nothing is assigned: a split would be in two parts of a checkpoint, or in none
(Flink's OperatorEventValve). Where barriers come at the end of epochs, this never happens. Splits that are assigned but not
yet fetched are kept with the enumerator's own snapshot. So each split is in exactly one place of every checkpoint.
"""

from __future__ import annotations

import threading
from typing import Any

from pystate.common.errors import ControlError
from pystate.connectors.operators.source_feed import Plain
from pystate.connectors.source import Source, SourceSplit, SplitEnumerator, SplitEnumeratorContext

REGISTER, REQUEST, EVENT, AFTER = "register", "request", "event", "after"
SPLIT, NO_MORE = "split", "no more splits"


class SourceCoordinator(SplitEnumeratorContext[Any]):
    """Runs the enumerator.

    Args:
        source: The user's source.
        parallelism: The number of readers.
    """

    def __init__(self, source: Source[Any, Any], parallelism: int) -> None:
        self._source = source
        self._parallelism = parallelism
        self._lock = threading.RLock()
        self._outbox: dict[int, list[Plain]] = {}
        self._answers: dict[int, tuple[int, list[Plain]]] = {}
        self._readers: list[int] = []
        self._enumerator: SplitEnumerator[Any] | None = None
        self._after: int | None = None

    def start(self, checkpoint: Plain | None) -> None:
        """Create or restore the enumerator.

        Args:
            checkpoint: The result of `snapshot`; None for a start without state.
        """
        with self._lock:
            if checkpoint is None:
                self._enumerator = self._source.create_enumerator(self)
            else:
                self._enumerator = self._source.restore_enumerator(self, checkpoint[0])
            self._enumerator.start()

    def answer(self, subtask: int, number: int, messages: list[Plain]) -> list[Plain] | None:
        """Handle the messages of a reader, and return those for it; None if messages aren't accepted now.

        Args:
            subtask: The subtask of the reader.
            number: The number of the request; a repeated request, e.g. after a lost answer, gets the same answer.
            messages: The messages of the reader.

        Raises:
            ControlError: It hasn't started, or is closed.
        """
        with self._lock:
            enumerator = self._enumerator
            if enumerator is None:
                message = "The source has no enumerator at work."
                raise ControlError(message)
            if number == self._answers.get(subtask, (0, []))[0]:
                return self._answers[subtask][1]
            if any(word == AFTER and about != self._after for word, about in messages):
                return None
            for word, about in messages:
                if word == REGISTER:
                    self._readers.append(subtask)
                    enumerator.add_reader(subtask)
                elif word == REQUEST:
                    enumerator.handle_split_request(subtask, about)
                elif word == EVENT:
                    enumerator.handle_source_event(subtask, about)
            answer = self._outbox.pop(subtask, [])
            self._answers[subtask] = (number, answer)
            return answer

    def snapshot(self, checkpoint_id: int) -> tuple[Plain, list[Any]]:
        """Return the enumerator's snapshot, and the splits that are assigned but not yet fetched, in plain form."""
        with self._lock:
            assert self._enumerator is not None  # noqa: S101 - a barrier comes after the start
            self._after = checkpoint_id
            own = self._enumerator.snapshot_state(checkpoint_id)
            underway = [about for mail in self._outbox.values() for word, about in mail if word == SPLIT]
            return [own], underway

    def close(self) -> None:
        """Close the enumerator."""
        with self._lock:
            enumerator, self._enumerator = self._enumerator, None
            if enumerator is not None:
                enumerator.close()

    # -- the enumerator's context

    def current_parallelism(self) -> int:
        """Return the number of readers."""
        return self._parallelism

    def registered_readers(self) -> list[int]:
        """Return the registered subtasks."""
        return list(self._readers)

    def assign_split(self, split: SourceSplit, subtask: int) -> None:
        """Queue a split for a reader."""
        self._send(subtask, [SPLIT, split.to_plain()])

    def signal_no_more_splits(self, subtask: int) -> None:
        """Tell a reader that it gets no more splits."""
        self._send(subtask, [NO_MORE, None])

    def send_event_to_source_reader(self, subtask_id: int, event: Any) -> None:
        """Send an event to a reader."""
        self._send(subtask_id, [EVENT, event])

    def _send(self, subtask: int, message: Plain) -> None:
        if not 0 <= subtask < self._parallelism:
            text = f"A split enumerator names reader {subtask}; there are {self._parallelism}, from 0 on."
            raise ControlError(text)
        with self._lock:
            self._outbox.setdefault(subtask, []).append(message)
