"""The event time of one subtask: the watermarks of its inputs, its output watermark, and their part of checkpoints."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

import pyarrow as pa

from pystate.common.type_info import Types
from pystate.core.api.state import ListStateDescriptor
from pystate.core.state.operator.operator_state_backend import OperatorStateBackend
from pystate.runtime.plan.event_time import task_channel
from pystate.runtime.plan.task import TaskSpec
from pystate.runtime.slot.chain.watermark_rows import OutgoingWatermark, watermark_of, watermark_rows
from pystate.runtime.slot.event_time.chain_time import MAX_WATERMARK, MIN_WATERMARK, ChainTime
from pystate.runtime.slot.event_time.watermark_valve import WatermarkValve
from pystate.runtime.slot.operators.timestamps import TimestampsAndWatermarks

_STATE = ListStateDescriptor("_watermarks_", Types.STRING())
"""JSON texts, each a list of the fields of a `_StoredWatermark`."""
_OWN = -1


class _StoredWatermark(NamedTuple):
    """A watermark in a snapshot.

    Attributes:
        subtask: The subtask that wrote it.
        input_index: The input; -1 for the task's own event time.
        channel: The channel of the input; empty for the task's own.
        watermark: The watermark, ms since 1970.
    """

    subtask: int
    input_index: int
    channel: str
    watermark: int


class TaskWatermarks:
    """The watermarks of a task's inputs and channels, and the task's own, stored in its subtask's `ChainTime`.

    Args:
        task: The task.
        subtask: The subtask index.
        time: The chain's time.

    Attributes:
        valves: By input: the watermarks of its channels.
        output: The last watermark that was sent.
    """

    def __init__(self, task: TaskSpec, subtask: int, time: ChainTime) -> None:
        self.valves = [WatermarkValve(read.channels, time.clock()) for read in task.inputs]
        self.output = MIN_WATERMARK
        self._task = task
        self._subtask = subtask
        self._time = time
        self._inputs = [MIN_WATERMARK] * len(task.inputs)
        self._finished = (list(self._inputs), MIN_WATERMARK)
        self._edges = [output for output in task.outputs if output.timestamped]

    def current(self) -> tuple[int, int]:
        """Return the task's watermark, and the one it has sent."""
        return self._time.watermark, self.output

    def take(self, batch: pa.RecordBatch, input_index: int) -> None:
        """Store watermark rows of an input's channels."""
        now = self._time.clock()
        for channel, watermark, idle in watermark_rows(batch):
            self.valves[input_index].take(channel, watermark, idle=idle, now=now)

    def reached(self, *, end_of_input: bool, ended: Collection[str] = ()) -> Iterator[tuple[int, int]]:
        """Yield watermark and index of each input that has one, or that event time no longer waits for.

        Args:
            end_of_input: Whether all inputs have ended.
            ended: The channels that have ended, see `WatermarkValve.advance`.
        """
        now = self._time.clock()
        watermarks = [MAX_WATERMARK if end_of_input else valve.advance(now, ended) for valve in self.valves]
        for index, watermark in enumerate(watermarks):
            if watermark > MIN_WATERMARK or self.valves[index].is_idle:
                yield watermark, index

    def rise(self, timestamp: int, input_index: int) -> int | None:
        """Process the watermark of an input; return the task's, the lowest of its inputs', if it has advanced.

        Inputs that are idle or at the end of event time are ignored; if there are no others, the task's watermark stays as
        long as an input may continue.
        """
        self._inputs[input_index] = max(self._inputs[input_index], timestamp)
        live = [(known, valve) for known, valve in zip(self._inputs, self.valves, strict=True) if known != MAX_WATERMARK]
        active = [known for known, valve in live if not valve.is_idle] or [known for known, _ in live]
        watermark = min(active, default=MAX_WATERMARK)
        if watermark <= self._time.watermark:
            return None
        self._time.watermark = watermark
        return watermark

    def outgoing(
        self, assigners: Mapping[str, TimestampsAndWatermarks], *, of_assigners: bool = True
    ) -> Iterator[OutgoingWatermark]:
        """Yield the task's own watermark for the next tasks, one per edge with event time.

        Args:
            assigners: The chain's assigners, by uid.
            of_assigners: Whether to include edges downstream of an assigner; if not, they are included only at the end of
                event time.
        """
        own = self._time.watermark
        timed = [valve for valve in self.valves if valve.has_channels]
        idle = bool(timed) and all(valve.is_idle for valve in timed)
        self.output = own
        for edge in self._edges:
            if own == MAX_WATERMARK:
                watermark, is_idle = own, False
            elif not of_assigners and any(uid is not None for uid in edge.assigners):
                continue
            else:
                watermark, is_idle = watermark_of(edge, assigners, own, task_is_idle=idle)
            self.output = watermark
            yield OutgoingWatermark(edge, task_channel(self._task.uid, edge, self._subtask), watermark, is_idle)

    def finish_epoch(self) -> None:
        """Commit the changes of the epoch."""
        self._finished = (list(self._inputs), self._time.watermark)
        for valve in self.valves:
            valve.finish_epoch()

    def roll_back_epoch(self) -> None:
        """Discard the changes of the epoch."""
        inputs, self._time.watermark = self._finished
        self._inputs = list(inputs)
        for valve in self.valves:
            valve.roll_back()

    def write(self, state: OperatorStateBackend) -> None:
        """Write the watermarks to the head's operator state, which each subtask gets in full at a restore."""
        if not any(valve.has_channels for valve in self.valves):
            return
        own = self._time.watermark
        entries: list[_StoredWatermark] = []
        if own == MAX_WATERMARK:  # a job that continues after the end of the input isn't late
            own = MIN_WATERMARK
        else:
            entries = [
                _StoredWatermark(self._subtask, index, channel, watermark)
                for index, valve in enumerate(self.valves)
                for channel, watermark in valve.snapshot().items()
            ]
        entries.append(_StoredWatermark(self._subtask, _OWN, "", own))
        state.get_union_list_state(_STATE).update([json.dumps(entry) for entry in entries])

    def restore(self, state: OperatorStateBackend) -> None:
        """Continue at the lowest watermark of all previous subtasks, per channel and for the task."""
        if not any(valve.has_channels for valve in self.valves):
            return
        entries = [_StoredWatermark(*json.loads(entry)) for entry in state.get_union_list_state(_STATE).get()]
        for index, valve in enumerate(self.valves):
            by_subtask: dict[int, dict[str, int]] = {}
            for stored in entries:
                if stored.input_index == index:
                    by_subtask.setdefault(stored.subtask, {})[stored.channel] = stored.watermark
            valve.restore(by_subtask.values(), self._time.clock())
        own = (stored.watermark for stored in entries if stored.input_index == _OWN)
        self._time.watermark = min(own, default=MIN_WATERMARK)
        self._inputs = [valve.advance(self._time.clock()) for valve in self.valves]
        self._finished = (list(self._inputs), self._time.watermark)
