"""An engine of another kind than the micro-batch one: channels in one process, barriers in the stream, aligned. No Spark.

It is here to prove that the seam is one: what runs, `Subtask` and all below it, is what runs in slots.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pystate.core.records.codec import KEY_FIELD, KEY_GROUP_FIELD
from pystate.core.snapshot.handles.handles import FileStateHandle
from pystate.core.snapshot.handles.keyed_state_handle import KeyedStateHandle
from pystate.core.snapshot.operator_state import TaskState
from pystate.core.state.keys.keys import KeyCodec
from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.plan.task import JobEnvironment, TaskSpec
from pystate.runtime.plan.task_output import OutputKind, OutputSpec
from pystate.runtime.slot.snapshots.restored_operator import RestoredOperator
from pystate.runtime.slot.subtask import Subtask


@dataclass(frozen=True)
class Watermark:
    timestamp: int


@dataclass(frozen=True)
class Tick:
    """The clock has gone on."""


@dataclass(frozen=True)
class End:
    """No event comes after it."""


Event = pa.RecordBatch | Watermark | CheckpointBarrier | Tick | End


class Channel:
    """From one upstream subtask, or source, to one subtask."""

    def __init__(self, reader: ToySubtask, input_index: int) -> None:
        self.reader = reader
        self.input_index = input_index
        self.events: deque[Event] = deque()
        self.blocked = False
        self.ended = False
        self.watermark = -1

    def send(self, event: Event) -> None:
        self.events.append(event)


class ToySubtask(Subtask):
    """Takes one event at a time off one of its channels, and stops reading those whose barrier it has seen."""

    aligns = True

    def __init__(self, engine: ToyEngine, task: TaskSpec, index: int, environment: JobEnvironment) -> None:
        super().__init__(task, index, environment, engine, lambda run: run(), self._emit)
        self._engine = engine
        self.channels: list[Channel] = []
        self.writers: dict[str, list[Channel]] = {}
        self._seen: set[int] = set()

    def take(self, channel: Channel) -> None:
        event = channel.events.popleft()
        match event:
            case CheckpointBarrier():
                self._barrier(channel, event)
            case Watermark(timestamp):
                channel.watermark = max(channel.watermark, timestamp)
                of_input = [one.watermark for one in self.channels if one.input_index == channel.input_index]
                risen = self.chain.on_watermark(min(of_input), channel.input_index)
                if risen is not None:
                    self._hand_on(Watermark(risen))
            case Tick():
                self.chain.on_tick()
            case End():
                channel.ended = True
                if all(one.ended for one in self.channels):
                    self.chain.flush_output()
                    self.chain.finish_epoch()
                    self._hand_on(event)
            case _:
                with self._user_code():
                    self.chain.on_batch(event, channel.input_index)

    def _barrier(self, channel: Channel, barrier: CheckpointBarrier) -> None:
        channel.blocked = True
        is_first = barrier.checkpoint_id not in self._seen
        self._seen.add(barrier.checkpoint_id)
        if all(one.blocked or one.ended for one in self.channels) if self.aligns else is_first:
            self.chain.flush_output()
            self.chain.finish_epoch()
            self._hand_on(barrier)
            self.checkpoints.take(barrier)
            for one in self.channels:
                one.blocked = False
        if not self.aligns:
            channel.blocked = False

    def _hand_on(self, event: Event) -> None:
        self.chain.flush_output()
        for channels in self.writers.values():
            for channel in channels:
                channel.send(event)

    def _emit(self, output: OutputSpec, batch: pa.RecordBatch) -> None:
        if output.kind is OutputKind.FRAME:
            self._engine.collected += [tuple(row.values()) for row in batch.to_pylist()]
            return
        assert output.target is not None
        target = self._engine.tasks[output.target]
        for subtask, rows in enumerate(by_subtask(batch, KEY_FIELD, target)):
            if rows.num_rows:
                self.writers[output.target][subtask].send(rows)


class ToyEngine:
    """Runs tasks one after the other. It is also whom subtasks report to.

    Args:
        tasks: In the order rows reach them; all are keyed by STRING, and the last one has a FRAME output.
        sources: The number of sources; each sends to every subtask of the first task.
        directory: For the subtasks.
        restored: By uid: what a checkpoint holds.
        seed: Which channel is read next.
    """

    def __init__(
        self,
        tasks: list[TaskSpec],
        sources: int,
        directory: str,
        restored: dict[str, RestoredOperator] | None = None,
        seed: int = 0,
        kind: type[ToySubtask] = ToySubtask,
        state_backend: str = "hashmap",
    ) -> None:
        self.tasks = {task.uid: task for task in tasks}
        self.collected: list[tuple[Any, ...]] = []
        self.acknowledged: dict[tuple[str, int], TaskState] = {}
        self.failures: list[Exception] = []
        self._random = random.Random(seed)
        environment = JobEnvironment("a" * 32, "job", 0, {}, state_backend, 1 << 20, directory)
        self._subtasks = {
            task.uid: [kind(self, deepcopy(task), index, environment) for index in range(task.parallelism)] for task in tasks
        }
        for subtask in self.subtasks():
            subtask.open(restored, None if restored is None else 1)
        first, writers = self._subtasks[tasks[0].uid], range(sources)
        self.sources = [[self._channel(subtask, 0) for subtask in first] for _ in writers]
        for before, after in zip(tasks, tasks[1:], strict=False):
            for upstream in self._subtasks[before.uid]:
                upstream.writers[after.uid] = [self._channel(subtask, 0) for subtask in self._subtasks[after.uid]]

    def subtasks(self) -> list[ToySubtask]:
        return [subtask for subtasks in self._subtasks.values() for subtask in subtasks]

    def send(self, source: int, words: Iterable[str]) -> None:
        """Let a source send words to the subtasks they belong to."""
        batch = pa.RecordBatch.from_arrays([pa.array(list(words), pa.string())], names=["value"])
        task = next(iter(self.tasks.values()))
        for channel, rows in zip(self.sources[source], by_subtask(batch, "value", task), strict=True):
            if rows.num_rows:
                channel.send(rows)

    def send_all(self, source: int, event: Event) -> None:
        for channel in self.sources[source]:
            channel.send(event)

    def run(self) -> None:
        """Let events flow, in an order of the seed's, until none can."""
        while True:
            ready = [one for subtask in self.subtasks() for one in subtask.channels if one.events and not one.blocked]
            if not ready:
                return
            channel = self._random.choice(ready)
            channel.reader.take(channel)

    def restored(self, location: str) -> dict[str, RestoredOperator]:
        """Return what the acknowledged checkpoint holds; each subtask takes its key groups of it."""
        found: dict[str, RestoredOperator] = {}
        for (uid, _), state in self.acknowledged.items():
            operator = found.setdefault(uid, RestoredOperator(location))
            for keyed in state.operators[uid].keyed_state:
                handle = keyed.handle
                if isinstance(handle, FileStateHandle):
                    handle = FileStateHandle(f"{location}/{handle.path}", handle.size, handle.crc32)
                first, last = keyed.start_key_group, keyed.end_key_group
                operator.keyed_state.append(KeyedStateHandle(first, last, keyed.format, handle))
        return found

    def close(self) -> None:
        for subtask in self.subtasks():
            subtask.close()

    def acknowledge(self, checkpoint_id, uid, subtask, state, metrics):
        self.acknowledged[uid, subtask] = state

    def decline(self, checkpoint_id, uid, subtask, error, reason):
        self.failures.append(error)

    def task_failed(self, uid, subtask, error, stack_trace, record=None):
        self.failures.append(error)

    @staticmethod
    def _channel(reader: ToySubtask, input_index: int) -> Channel:
        reader.channels.append(Channel(reader, input_index))
        return reader.channels[-1]


def by_subtask(batch: pa.RecordBatch, column: str, task: TaskSpec) -> list[pa.RecordBatch]:
    """Return the rows of each subtask, with their key groups."""
    key, codec = task.key, KeyCodec(task.key.key_type if task.key else None)
    assert key is not None
    keys = key.decoder(codec)(batch.column(column))
    groups = [codec.key_group(one, task.max_parallelism) for one in keys]
    routed = batch.append_column(KEY_GROUP_FIELD, pa.array(groups, pa.int32()))
    return [
        routed.filter(pa.array([group in task.key_group_range(index) for group in groups], pa.bool_()))
        for index in range(task.parallelism)
    ]
