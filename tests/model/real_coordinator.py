"""The coordinator of a job's checkpoints with the real-time engine's barriers, without threads, slots and files."""

from __future__ import annotations

import ast
import types
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

from pystate.common.configuration.configuration import Configuration
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.snapshot.handles.handles import ByteStreamStateHandle
from pystate.core.snapshot.handles.operator_state_handle import OperatorStateHandle
from pystate.core.snapshot.metadata import CheckpointType
from pystate.core.snapshot.operator_state import OperatorSubtaskState, TaskState
from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.checkpoint.checkpoint_coordinator import CheckpointCoordinator
from pystate.runtime.checkpoint.checkpoint_request import CheckpointRequest
from pystate.runtime.checkpoint.subtask_metrics import SubtaskCheckpointMetrics
from pystate.runtime.engines.real_time.driver.barriers import SourceBarriers
from pystate.runtime.plan.chain import OperatorSpec
from tests.model.real_subtask import Graph, task_of
from tests.runtime.checkpoint.harness import JOB
from tests.runtime.checkpoint.parts import Clock

TIMEOUT_S = 60
OPTIONS = {
    "execution.checkpointing.storage": "jobmanager",
    "execution.checkpointing.dir": "",
    "execution.checkpointing.timeout": f"{TIMEOUT_S} s",
    "execution.checkpointing.tolerable-failed-checkpoints": "9",
}
CONCURRENT = "execution.checkpointing.max-concurrent-checkpoints"
METRICS = SubtaskCheckpointMetrics(0, 0, 0, 0, None, 0, 0)

Part = tuple[int, int, str]
"""In which attempt, of which checkpoint, and by which task something was acknowledged: what stands for the state itself."""


class RealCoordinator:
    """The coordinator as something that a model drives.

    Stimuli: `("trigger",)`, `("acknowledge", part)`, `("restart",)`, and `("expire",)`: all that is under way
    takes too long.
    What comes out: `("barrier", CheckpointBarrier)` for the sources, `("completed", checkpoint id, parts)`, the
    `AckResult` of an acknowledgement, `("restored", checkpoint id or None, parts)`, `("failed",)`: the attempt has to end.
    """

    def __init__(self, graph: Graph, concurrent: int) -> None:
        self._out: list[Any] = []
        self._clock = Clock()
        configuration = Configuration({**OPTIONS, CONCURRENT: str(concurrent)})
        self._coordinator = coordinator = CheckpointCoordinator(JOB, configuration, Path("/nowhere"), self._clock)
        heads = [OperatorSpec(uid, uid, OperatorKind.PROCESS, len) for uid in graph.tasks]
        tasks = [replace(task_of(graph, head.uid), head=head) for head in heads]
        thread: Any = coordinator._thread
        thread.start = lambda: None
        coordinator.start(tasks, None)
        coordinator.completed_listeners.append(lambda completed: self._out.append(_completed(completed)))
        self._requests: list[CheckpointRequest] = []
        self._begin()

    def _begin(self) -> None:
        slots: Any = types.SimpleNamespace(notify=self._notify, call_all=self._call_all)
        self._barriers = SourceBarriers(self._coordinator.pending, slots, lambda: lambda: True)
        self._coordinator.attempt_started(slots, self._barriers, lambda _: self._out.append(("failed",)))

    def _notify(self, checkpoint_id: int, *, completed: bool) -> Future[bool]:
        del checkpoint_id, completed
        told: Future[bool] = Future()
        told.set_result(True)
        return told

    def _call_all(self, op: str, arguments: Any) -> None:
        assert op == "trigger_checkpoint"
        plain = arguments(0)
        self._out.append(("barrier", CheckpointBarrier.from_plain(plain["barrier"])))

    # -- for the model

    def apply(self, stimulus: Any) -> list[Any]:
        self._out = []
        match stimulus:
            case ("trigger",):
                self._coordinator.submit(CheckpointRequest(CheckpointType.CHECKPOINT))
            case ("acknowledge", part):
                attempt, checkpoint_id, uid = part
                state = TaskState({uid: OperatorSubtaskState(operator_state=[_handle(part)])})
                self._out.append(self._coordinator.acknowledge(checkpoint_id, uid, 0, state, METRICS))
            case ("expire",):
                self._clock.now += TIMEOUT_S
            case ("restart",):
                self._coordinator.attempt_over()
                self._take_steps()
                snapshot = self._coordinator.latest_snapshot()
                restored = ("restored", None, ()) if snapshot is None else ("restored", *_parts(snapshot.metadata))
                self._out.append(restored)
                self._begin()
        self._take_steps()
        return self._out

    def _take_steps(self) -> None:
        schedule, thread = self._coordinator._schedule, self._coordinator._thread
        while True:
            self._coordinator.pending.settle_cuts()
            step = schedule.next_step()
            if step is None:
                return
            thread.take(step)

    def roots(self) -> Any:
        one = self._coordinator
        under_way = {
            pending.checkpoint_id: (pending._states, pending.committed, pending.deadline, pending.failure_reason)
            for pending in one.pending
        }
        barriers = self._barriers
        attempt = barriers._waiting, barriers._placing, barriers._closed, barriers._over, barriers._last, barriers._told
        complete = [_parts(kept.metadata) for kept in one._points._store.checkpoints]
        schedule, decider = one._schedule, one._schedule._decider
        turns = schedule._storage_step, decider._checkpoints, decider._savepoints, decider._last_completion, decider._tick
        return under_way, attempt, complete, turns, one._late, one._ids.next_id, one._failures._manager, self._clock.now

    def shows(self) -> tuple[int, ...]:
        """The numbers of the checkpoints under way, and behind them that of the one to go back to."""
        latest = self._coordinator._points._store.latest
        under_way = (checkpoint.checkpoint_id for checkpoint in self._coordinator.pending)
        return *under_way, 0 if latest is None else latest.checkpoint_id


def _handle(part: Part) -> OperatorStateHandle:
    return OperatorStateHandle({}, "model", ByteStreamStateHandle(repr(part).encode()))


def _completed(completed: Any) -> Any:
    return "completed", *_parts(completed.metadata)


def _parts(metadata: Any) -> tuple[int, tuple[Part, ...]]:
    states = [state for operator in metadata.operators for state in operator.subtasks.values()]
    texts = [handle.handle.data.decode() for state in states for handle in state.operator_state]
    return metadata.checkpoint_id, tuple(sorted(map(ast.literal_eval, texts)))
