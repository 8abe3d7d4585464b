"""Makes subtasks wait after an overtaking barrier until the next tasks have buffer space, see `OutputPause`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from pystate.common.configuration.configuration import Configuration
from pystate.common.time import current_time_ms
from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.engines.real_time.slot.input.input_settings import InputSettings
from pystate.runtime.plan.channels import JobChannels


class Slots(Protocol):
    """The slots of an attempt."""

    def call_all(self, op: str, arguments: Callable[[int], dict[str, Any]]) -> dict[int, Any]:
        """Call all slots at the same time, and return the answer of each."""


class _Waiting(NamedTuple):
    """A checkpoint whose barriers overtake records from a time on, ms since 1970."""

    checkpoint_id: int
    overtakes_at: int


class DownstreamRoom:
    """Asks the slots, task by task, after each barrier that may overtake.

    Args:
        channels: All subtasks of the job, and the channels between them.
        configuration: The job's.
        slots: The attempt's slots.
        clock: Returns milliseconds since 1970.
    """

    def __init__(
        self, channels: JobChannels, configuration: Configuration, slots: Slots, clock: Callable[[], int] = current_time_ms
    ) -> None:
        self._clock = clock
        self._channels = channels
        self._settings = InputSettings.of(configuration)
        self._slots = slots
        self._waiting: _Waiting | None = None
        self._paused = -1  # the checkpoint for which subtasks have been told to wait

    def barrier_sent(self, barrier: CheckpointBarrier) -> None:
        """Record a barrier that was sent. May be called from any thread."""
        overtakes_at = self._settings.overtakes_at(barrier)
        if overtakes_at is not None:
            self._waiting = _Waiting(barrier.checkpoint_id, overtakes_at)

    def look(self) -> None:
        """Tell subtasks to wait, and to continue where there is space.

        Raises:
            PystateError: A slot doesn't answer.
        """
        waiting = self._waiting
        if waiting is None or self._clock() < waiting.overtakes_at:
            return
        checkpoint_id = waiting.checkpoint_id
        if self._settings.aligned_timeout_ms and checkpoint_id > self._paused:  # else they wait since they sent the barrier
            self._paused = checkpoint_id
            self._slots.call_all("pause", lambda _: {"checkpoint_id": checkpoint_id})
        tasks = self._channels.tasks
        answers = {index: set(answer) for index, answer in self._slots.call_all("has_room", lambda _: {}).items()}
        have_room = {uid for uid, task in tasks.items() if all(uid in answers[index] for index in range(task.parallelism))}
        ready = [uid for uid in tasks if have_room.issuperset(self._channels.targets[uid])]
        self._slots.call_all("room_made", lambda _: {"checkpoint_id": checkpoint_id, "uids": ready})
        if len(ready) == len(tasks) and self._waiting == waiting:
            self._waiting = None
