"""The contexts passed to functions: the runtime context, and those of initialize_state and snapshot_state."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import StateError
from pystate.core.api.checkpointed import (
    FunctionInitializationContext,
    FunctionSnapshotContext,
    OperatorStateStore,
    RawKeyedStateOutput,
    RawOperatorStateOutput,
)
from pystate.core.api.functions import KeyedStateStore, RuntimeContext
from pystate.core.api.state import State, StateDescriptor
from pystate.core.metrics.metric import MetricGroup
from pystate.core.metrics.operator_metrics import OperatorMetrics, OperatorScope
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.core.state.operator.raw_state import RawKeyedStateWriter, RawOperatorStateWriter
from pystate.runtime.slot.operators.keyed_state_store import DescribedStates, keyless_state

if TYPE_CHECKING:
    from pystate.runtime.plan.chain import OperatorSpec
    from pystate.runtime.plan.task import JobEnvironment, TaskSpec


class SubtaskRuntimeContext(DescribedStates, RuntimeContext):
    """The runtime context of one operator in one subtask.

    Args:
        operator: The operator.
        task: Its task.
        subtask: The index of the subtask.
        environment: The job's environment.
        backend: The keyed state; None for operators that don't directly follow key_by().

    Attributes:
        metrics: The metrics registered by the operator's function.
    """

    def __init__(
        self,
        operator: OperatorSpec,
        task: TaskSpec,
        subtask: int,
        environment: JobEnvironment,
        backend: KeyedStateBackend | None,
    ) -> None:
        super().__init__(f"uid {operator.uid}")
        self._operator = operator
        self._task = task
        self._subtask = subtask
        self._environment = environment
        self._backend = backend
        self.metrics = OperatorMetrics(_scope(operator, task, subtask, environment))

    def move_to(self, subtask: int) -> None:
        """Assign the operator to another subtask: upstream of the first shuffle one function object serves several."""
        self._subtask = subtask
        self.metrics.scope = _scope(self._operator, self._task, subtask, self._environment)

    def get_task_name(self) -> str:
        """Return the names of all operators chained in the task."""
        return self._task.chained_name

    def get_task_name_with_subtasks(self) -> str:
        """Return the task's name with the subtask and attempt numbers."""
        number = self._subtask + 1  # upstream of the first shuffle there may be more subtasks than the parallelism
        subtask = f"{number}/{max(number, self._task.parallelism)}"
        return f"{self._task.chained_name} ({subtask})#{self._environment.attempt}"

    def get_number_of_parallel_subtasks(self) -> int:
        """Return the parallelism of the operator."""
        return self._task.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        """Return the number of key groups."""
        return self._task.max_parallelism

    def get_index_of_this_subtask(self) -> int:
        """Return the index of this subtask."""
        return self._subtask

    def get_attempt_number(self) -> int:
        """Return the attempt number."""
        return self._environment.attempt

    def get_job_parameter(self, key: str, default_value: str) -> str:
        """Return a value of the job's configuration."""
        return str(self._environment.configuration.get(key, default_value))

    def get_job_id(self) -> str:
        """Return the job's id."""
        return self._environment.job_id

    def get_operator_uid(self) -> str:
        """Return the operator's uid."""
        return self._operator.uid

    def get_job_configuration(self) -> Configuration:
        """Return the job's configuration."""
        return Configuration(self._environment.configuration)

    def get_metrics_group(self) -> MetricGroup:
        """Return the operator's metric group."""
        return self.metrics.group

    def _described_state(self, state_descriptor: StateDescriptor) -> State:
        operator, keyed = self._operator, self._backend is not None
        refusal = keyless_state(operator.name, operator.uid, state_descriptor.name, operator.kind, keyed=keyed)
        if refusal is not None:
            raise refusal
        assert self._backend is not None  # noqa: S101 - else it is refused
        return self._backend.get_partitioned_state(state_descriptor)


def _scope(operator: OperatorSpec, task: TaskSpec, subtask: int, environment: JobEnvironment) -> OperatorScope:
    host, slot = socket.gethostname(), f"slot-{subtask}"
    variables = {
        "<host>": host,
        "<tm_id>": slot,
        "<job_id>": environment.job_id,
        "<job_name>": environment.job_name,
        "<task_id>": task.vertex_id,
        "<task_name>": task.name,
        "<operator_name>": operator.name,
        "<subtask_index>": str(subtask),
    }
    components = (host, "taskmanager", slot, environment.job_name, operator.name, str(subtask))
    return OperatorScope(operator.uid, components, variables)


@dataclass(frozen=True)
class InitializationContext(FunctionInitializationContext):
    """The context of `initialize_state`.

    Attributes:
        restored_checkpoint_id: The checkpoint that the job starts from, or None.
        operator_state: The operator state store.
        keyed_state: The keyed state store.
        raw_keyed: Opens the raw keyed state assigned to this subtask.
        raw_operator: Opens the raw operator state assigned to this subtask.
    """

    restored_checkpoint_id: int | None
    operator_state: OperatorStateStore
    keyed_state: KeyedStateStore
    raw_keyed: Callable[[], Iterator[tuple[int, BinaryIO]]]
    raw_operator: Callable[[], Iterator[BinaryIO]]

    def is_restored(self) -> bool:
        """Return whether the job starts from a snapshot."""
        return self.restored_checkpoint_id is not None

    def get_restored_checkpoint_id(self) -> int | None:
        """Return the ID of that checkpoint."""
        return self.restored_checkpoint_id

    def get_operator_state_store(self) -> OperatorStateStore:
        """Return the store in which operator state is registered."""
        return self.operator_state

    def get_keyed_state_store(self) -> KeyedStateStore:
        """Return the store in which keyed state is registered."""
        return self.keyed_state

    def get_raw_keyed_state_inputs(self) -> Iterator[tuple[int, BinaryIO]]:
        """Iterate over (key group, bytes)."""
        return self.raw_keyed()

    def get_raw_operator_state_inputs(self) -> Iterator[BinaryIO]:
        """Iterate over the partitions."""
        return self.raw_operator()


@dataclass(frozen=True)
class SnapshotContext(FunctionSnapshotContext):
    """The context of `snapshot_state`.

    Attributes:
        checkpoint_id: The ID of the checkpoint.
        timestamp: When it was triggered, ms since 1970.
        raw_keyed: Output for raw keyed state; None if the operator isn't keyed.
        raw_operator: Output for raw operator state.
        where: The operator's name in errors.
        last: Whether the inputs of all subtasks have ended before it.
    """

    checkpoint_id: int
    timestamp: int
    raw_keyed: RawKeyedStateWriter | None
    raw_operator: RawOperatorStateWriter
    where: str
    last: bool = False

    def get_checkpoint_id(self) -> int:
        """Return the checkpoint ID."""
        return self.checkpoint_id

    def get_checkpoint_timestamp(self) -> int:
        """Return when the checkpoint was triggered."""
        return self.timestamp

    def is_last(self) -> bool:
        """Return whether the inputs of all subtasks have ended before it."""
        return self.last

    def get_raw_keyed_state_output(self) -> RawKeyedStateOutput:
        """Return the output for raw keyed state."""
        if self.raw_keyed is None:
            message = "Raw keyed state can't be written on a stream without a key."
            raise StateError(message, where=self.where, hint="put key_by(...) directly before the operator")
        return self.raw_keyed

    def get_raw_operator_state_output(self) -> RawOperatorStateOutput:
        """Return the output for raw operator state."""
        return self.raw_operator
