"""The common base of the engines' subtasks: the operator chain, its part of checkpoints, and failures."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Protocol

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.queryable_state_options import QueryableStateOptions
from pystate.common.configuration.groups.state_backend_options import StateBackendOptions
from pystate.common.errors import PystateError
from pystate.core.state.base.committed_states import CommittedStates
from pystate.runtime.plan.task import JobEnvironment, TaskSpec
from pystate.runtime.slot.chain.operator_chain import OperatorChain, OutputSink
from pystate.runtime.slot.snapshots.restored_operator import RestoredOperator
from pystate.runtime.slot.subtask_checkpoints import CheckpointResponder, SubtaskCheckpointCoordinator, Upload
from pystate.runtime.slot.user_code import UserCode


class SubtaskGateway(CheckpointResponder, Protocol):
    """The reports of a subtask of any engine to the driver."""

    def task_failed(
        self, uid: str, subtask: int, error: PystateError, stack_trace: str, record: bytes | None = None
    ) -> None:
        """Report that the job can't continue."""


class Subtask:
    """The common base of the engines' subtasks. An engine sends events, and holds `_changed` during each.

    Args:
        task: The task to run.
        index: The subtask index.
        environment: The job's environment.
        gateway: Reports to the driver.
        upload: Runs the asynchronous part of a snapshot on another thread.
        sink: Called with every record batch that leaves the task.

    Attributes:
        chain: The operator chain.
        checkpoints: The subtask's part of checkpoints.
        versions: The versions of its state that queries can read; None if there are none.
    """

    def __init__(
        self,
        task: TaskSpec,
        index: int,
        environment: JobEnvironment,
        gateway: SubtaskGateway,
        upload: Upload,
        sink: OutputSink,
    ) -> None:
        self.task = task
        self.index = index
        configuration = Configuration(environment.configuration)
        self.chain = OperatorChain(task, index, environment, sink)
        backend, readable = self.chain.backend, configuration.get(QueryableStateOptions.ENABLE_QUERYABLE_STATE_PROXY_SERVER)
        self.versions = CommittedStates(backend.committed_view) if readable and backend is not None else None
        self.checkpoints = SubtaskCheckpointCoordinator(
            self.chain,
            gateway,
            upload,
            self.fail,
            asynchronous=configuration.get(StateBackendOptions.ASYNC_SNAPSHOTS),
            versions=self.versions,
        )
        self._gateway = gateway
        self._changed = threading.Condition()
        self._failed: PystateError | None = None

    def open(
        self,
        restored: Mapping[str, RestoredOperator] | None = None,
        checkpoint_id: int | None = None,
        checkpoint_timestamp: int | None = None,
    ) -> None:
        """Restore the state and open the functions.

        Args:
            restored: The restored state of this subtask, by operator uid.
            checkpoint_id: The checkpoint that the job starts from, or None.
            checkpoint_timestamp: When that was triggered, ms since 1970, or None.
        """
        with self._user_code():
            self.chain.open(restored, checkpoint_id)

    def close(self) -> None:
        """Close the functions and the backend."""
        if self.versions is not None:
            self.versions.close()
        self.chain.close()

    def notify(self, checkpoint_id: int, *, completed: bool) -> bool:
        """Notify the functions of the outcome of a checkpoint: at once if no event is in progress, otherwise after it.

        Returns:
            Whether all functions that listen have been notified and have handled it.
        """
        if not self.checkpoints.ended(checkpoint_id, completed=completed):
            return True
        with self._changed:
            self.checkpoints.tell_later(checkpoint_id, completed=completed)
            if not self._is_at_rest():
                return False
            self.checkpoints.deliver(self._has_failed)
            return self._failed is None

    def commit_rest(self) -> None:
        """Have sinks commit everything, at the end of a job that takes no checkpoints.

        Raises:
            PystateError: They can't; the coordinator has been notified.
        """
        with self._changed, self._user_code():
            for operator in reversed(self.chain.operators):
                operator.commit_rest()

    def fail(self, error: PystateError, stack_trace: str) -> None:
        """Stop handling events, and report the cause to the coordinator."""
        with self._changed:
            self._failed = error
            self._changed.notify_all()
        self._gateway.task_failed(self.task.uid, self.index, error, stack_trace, self.chain.failing_record)

    def _is_at_rest(self) -> bool:
        """Whether no event is half processed; called while the subtask is held."""
        return True

    def _has_failed(self) -> bool:
        return self._failed is not None

    def _user_code(self) -> UserCode:
        return UserCode(self.task.place_of(self.index), self.fail, self.chain.failed_record.place)
