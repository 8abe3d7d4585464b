"""The real-time engine's subtasks, without threads, operators and Spark: with real gates, mailboxes and writers."""

from __future__ import annotations

import math
import types
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import pyarrow as pa

from pystate.common import Types
from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason
from pystate.runtime.engines.real_time.slot.frames import PLACE_SIZE, place_of, unpack_frame
from pystate.runtime.engines.real_time.slot.input.input_gate import InputGate
from pystate.runtime.engines.real_time.slot.input.input_settings import InputSettings
from pystate.runtime.engines.real_time.slot.mailbox import TaskMailbox
from pystate.runtime.engines.real_time.slot.output.record_writer import RecordWriter
from pystate.runtime.engines.real_time.slot.real_time_subtask import RealTimeSubtask
from pystate.runtime.plan.chain import Chain
from pystate.runtime.plan.channels import JobChannels, SubtaskId, TaskChannels
from pystate.runtime.plan.task import JobEnvironment, TaskInput, TaskSpec
from pystate.runtime.plan.task_output import OutputKind, OutputSpec, Routing

LONG = Types.LONG()
ENVIRONMENT = JobEnvironment("a" * 32, "job", 0, {}, "hashmap", 1 << 20, "/nowhere")
ROOM = 1 << 30
PER_SOURCE = 100

_UNCHANGED = "task _schemas _upstream _edges _outputs _graph _places values _thread"
_FOR_PEOPLE = "checkpoints versions _version _gateway _driver _slices _out"
IGNORED = frozenset([*_UNCHANGED.split(), *_FOR_PEOPLE.split()])
"""Attributes that make no difference."""


@dataclass(frozen=True)
class Graph:
    """A job of the model; all its tasks have one subtask.

    Attributes:
        edges: From task to task, in the order of levels.
        records: How many each source has.
    """

    edges: tuple[tuple[str, str], ...]
    records: tuple[tuple[str, int], ...]

    @property
    def tasks(self) -> list[str]:
        """All of them, sources first."""
        return list(dict.fromkeys([*dict(self.records), *(uid for edge in self.edges for uid in edge)]))

    def upstream(self, uid: str) -> list[str]:
        """Return the tasks that send to one."""
        return [source for source, target in self.edges if target == uid]

    def downstream(self, uid: str) -> list[str]:
        """Return the tasks that one sends to."""
        return [target for source, target in self.edges if source == uid]

    def values(self, uid: str) -> Iterator[int]:
        """Yield the records of a source."""
        number = self.tasks.index(uid) + 1
        yield from (number * PER_SOURCE + position for position in range(dict(self.records)[uid]))


@cache
def task_of(graph: Graph, uid: str) -> TaskSpec:
    """Return a task of the plan: edges, and no operator."""
    outputs = [
        OutputSpec(tag, OutputKind.EDGE, "edge", LONG, target=target, routing=Routing.FORWARD)
        for tag, target in enumerate(graph.downstream(uid))
    ]
    return TaskSpec(uid, uid, uid, 1, 1, [TaskInput(LONG, None)], chain=Chain(outputs=outputs))


@cache
def channels_of(graph: Graph) -> JobChannels:
    """Return the channels of a job; the level of a task is its number."""
    first = task_of(graph, graph.tasks[0])
    schemas = {0: first.outputs[0].schema().serialize().to_pybytes()}
    tasks = {}
    for level, uid in enumerate(graph.tasks):
        upstream: tuple[SubtaskId, ...] = tuple((sender, 0) for sender in graph.upstream(uid))
        tasks[uid] = TaskChannels(1, 1, level, 0, upstream, schemas)
    return JobChannels(tasks, (1,) * len(tasks), {uid: tuple(graph.downstream(uid)) for uid in graph.tasks})


class NotingChain:
    """What a task does in the model: it takes note of each record, and has it in its output buffer until that is flushed.

    Args:
        subtask: Whose.
        values: Of a source: all its records.
    """

    current_watermark = 0
    watermarks = types.SimpleNamespace(valves=[None])
    assigners = types.SimpleNamespace(next_idle=lambda _: None, by_uid={})
    metrics = types.SimpleNamespace(
        batch_out=lambda *_: None, sample_gauges=lambda: None, epoch_finished=lambda _: None, blocked_ns=0
    )

    def __init__(self, subtask: RealTimeSubtask, values: tuple[int, ...] | None) -> None:
        self._write = subtask._write
        self._outputs = subtask.task.outputs
        self.values = values
        self.position = 0
        self.seen: list[int] = []
        self.buffer: list[int] = []
        self.operators = [] if values is None else [types.SimpleNamespace(source=self)]

    # -- as an operator chain

    def on_batch(self, rows, index, size):
        del index, size
        values = rows.column(0).to_pylist()
        self.seen = sorted([*self.seen, *values])
        self.buffer += values

    def flush_output(self):
        values, self.buffer = self.buffer, []
        for output in self._outputs if values else ():
            self._write(output, pa.RecordBatch.from_arrays([pa.array(values, pa.int64())], schema=output.schema()))

    def next_processing_time_timer(self):
        return None

    def watermarks_out(self, *, of_assigners):
        del of_assigners
        return []

    def advance_watermarks(self, *, end_of_input=False):
        pass

    def finish_epoch(self):
        pass

    # -- as what a source reads

    is_roused = False

    @property
    def ended(self):
        return self.position == len(self.values)

    def take(self, valve, *, whole):
        del valve, whole
        if not self.ended:
            self.buffer.append(self.values[self.position])
            self.position += 1

    def next_due(self, timer):
        return timer


class Shown(NamedTuple):
    """What a subtask has to do.

    Attributes:
        is_roused: Something has come to it.
        goes_on: It has something to read, or to hand on.
    """

    is_roused: bool
    goes_on: bool


class RealSubtask:
    """A subtask as something that a model drives.

    Stimuli: `("open", part)` first; `("frame", bytes)` and `("barrier", CheckpointBarrier)` come in; `("step",)`.
    What comes out: `("sent", place, bytes)`, `("part", checkpoint id, part)`. A part is what the subtask has seen, how far
    it has read, and what was under way to it; `("look",)` lets one come out, too.
    """

    def __init__(self, graph: Graph, uid: str, *, exactly_once: bool, settings: InputSettings | None = None) -> None:
        self._graph = graph
        self._out: list[Any] = []
        mailbox, channels, task = TaskMailbox(), channels_of(graph), task_of(graph, uid)
        upstream = channels.tasks[uid].upstream
        settings = settings or InputSettings(at_least_once=not exactly_once, memory_bytes=ROOM, room_bytes=ROOM // 2)
        gate = InputGate(upstream, mailbox, settings, lambda: 0) if upstream else None
        writer = RecordWriter(task, 0, channels, self)
        nobody: Any = types.SimpleNamespace(ended=lambda *_: None, task_failed=self._failed)
        self._subtask = subtask = RealTimeSubtask(
            task, 0, ENVIRONMENT, nobody, nobody, lambda run: run(), mailbox, gate, writer, channels.tasks[uid]
        )
        self._chain = NotingChain(subtask, None if upstream else tuple(graph.values(uid)))
        stubbed: Any = subtask
        stubbed.chain, stubbed.checkpoints = self._chain, self
        stubbed._rest = lambda *_: None
        self._mailbox, self._gate = mailbox, gate

    def send(self, frame: bytes) -> None:
        """Take what the writer sends."""
        self._out.append(("sent", place_of(frame), frame[PLACE_SIZE:]))

    def take(self, barrier: CheckpointBarrier, alignment: Any = None) -> None:
        """Be the subtask's part of a checkpoint."""
        del alignment
        self._out.append(("part", barrier.checkpoint_id, self._part()))

    def give_up(self, checkpoint_id: int, error: Exception, reason: CheckpointFailureReason) -> None:
        """Decline a checkpoint."""
        del error
        self._out.append(("declined", checkpoint_id, reason))

    def _part(self) -> tuple[tuple[int, ...], int, tuple[int, ...]]:
        return tuple(self._chain.seen), self._chain.position, ()

    def _failed(self, uid: str, subtask: int, error: Exception, trace: str) -> None:
        raise error

    def _step(self) -> None:
        """Let the subtask do one thing; where nothing has come, its results have waited long enough.

        They have not in front of what has come: that includes a barrier, which they must not fall behind.
        """
        interval = self._subtask._interval
        waits = interval._timeout_s
        interval._timeout_s = math.inf if self._mailbox._mail or (self._gate and self._gate.has_events) else 0.0
        self._subtask._step()
        interval._timeout_s = waits

    # -- for the model

    def apply(self, stimulus: Any) -> list[Any]:
        self._out = []
        match stimulus:
            case ("open", part):
                if part is not None:
                    self._chain.seen, self._chain.position = list(part[0]), part[1]
            case ("frame", data):
                assert self._gate is not None
                self._gate.receive(unpack_frame(data))
            case ("barrier", barrier):
                self._subtask.trigger_checkpoint(barrier)
            case ("step",):
                self._step()
            case ("look",):
                return [self._part()]
        return self._out

    def roots(self) -> Any:
        return self._subtask

    def shows(self) -> Shown:
        subtask, gate = self._subtask, self._gate
        is_roused = bool(self._mailbox._mail)
        if gate is None:
            return Shown(is_roused, not subtask._at_end and not subtask._ending.is_taken)
        return Shown(is_roused or gate.has_events, subtask._is_dirty)
