"""A task at work: its head on keyed elements, its chain, its state backend, its output buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from pystate.api.functions import Function, KeyedProcessFunction, RuntimeContext
from pystate.api.job_graph import OperatorKind
from pystate.api.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReducingState,
    ReducingStateDescriptor,
    State,
    StateDescriptor,
    StateKind,
    ValueState,
    ValueStateDescriptor,
)
from pystate.common.errors import ControlError, StateError
from pystate.slot.chain import CompiledChain, OperatorSpec, plain_callable
from pystate.slot.output import OutputBuffer, OutputSpec, line_prefix
from pystate.slot.records import KEY_GROUP_FIELD, RecordCodec
from pystate.slot.task import JobEnvironment, TaskSpec
from pystate.state.base.backend import KeyedStateBackend
from pystate.state.base.keys import KeyCodec
from pystate.state.base.loader import create_state_backend

OutputSink = Callable[[OutputSpec, pa.RecordBatch], None]


class SubtaskRuntimeContext(RuntimeContext):
    """The runtime context of one operator in one subtask.

    Args:
        operator: The operator that asks.
        task: Its task.
        subtask: The index of the subtask.
        environment: The job.
        backend: The keyed state, None for operators that don't stand directly behind key_by().
    """

    def __init__(
        self,
        operator: OperatorSpec,
        task: TaskSpec,
        subtask: int,
        environment: JobEnvironment,
        backend: KeyedStateBackend | None,
    ) -> None:
        self._operator = operator
        self._task = task
        self._subtask = subtask
        self._environment = environment
        self._backend = backend

    def get_task_name(self) -> str:
        """Return the operator's name."""
        return self._operator.name

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
        """Return the number of the execution attempt."""
        return self._environment.attempt

    def get_job_parameter(self, key: str, default_value: str) -> str:
        """Return a value of the job's configuration."""
        return str(self._environment.configuration.get(key, default_value))

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """Return the keyed value state of that name."""
        return cast("ValueState[Any]", self._keyed_state(state_descriptor, StateKind.VALUE))

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return the keyed list state of that name."""
        return cast("ListState[Any]", self._keyed_state(state_descriptor, StateKind.LIST))

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """Return the keyed map state of that name."""
        return cast("MapState[Any, Any]", self._keyed_state(state_descriptor, StateKind.MAP))

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """Return the keyed reducing state of that name."""
        return cast("ReducingState[Any]", self._keyed_state(state_descriptor, StateKind.REDUCING))

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        """Return the keyed aggregating state of that name."""
        return cast("AggregatingState[Any, Any]", self._keyed_state(state_descriptor, StateKind.AGGREGATING))

    def _keyed_state(self, descriptor: StateDescriptor, kind: StateKind) -> State:
        if self._backend is None:
            message = f"{self._operator.name!r} asks for the keyed state {descriptor.name!r} on a stream without a key."
            raise StateError(message, where=f"uid {self._operator.uid}", hint="put key_by(...) directly in front of it")
        if descriptor.kind is not kind:
            message = f"{descriptor!r} declares {descriptor.kind.value} state, {kind.value} state was asked for."
            raise StateError(message, where=f"uid {self._operator.uid}")
        return self._backend.get_partitioned_state(descriptor)


class _KeyedContext(KeyedProcessFunction.Context):
    """The context of `process_element`."""

    def __init__(self, backend: KeyedStateBackend) -> None:
        self._backend = backend

    def get_current_key(self) -> Any:
        """Return the key of the element."""
        return self._backend.current_key


class TaskOperator:
    """One subtask's share of a task, without threads, sockets or Spark.

    Args:
        task: What to run.
        subtask: Which share.
        environment: The job.
        sink: Called with every record batch that leaves the task.

    Attributes:
        backend: The keyed state, None where the task isn't keyed.
    """

    def __init__(self, task: TaskSpec, subtask: int, environment: JobEnvironment, sink: OutputSink) -> None:
        self.task = task
        self.subtask = subtask
        self.records_in = 0
        self._environment = environment
        self.key_groups = task.key_group_range(subtask)
        self.backend: KeyedStateBackend | None = None
        self._codec = RecordCodec(task.inputs[0].type_info, task.name)
        if task.key is not None:
            key_codec = KeyCodec(task.key.key_type)
            self.backend = create_state_backend(
                environment.state_backend,
                key_codec=key_codec,
                key_group_range=self.key_groups,
                max_parallelism=task.max_parallelism,
                working_directory=environment.working_directory,
            )
            self._decode_keys = task.key.decoder(key_codec, task.name)
        self._buffers = {
            output.tag: OutputBuffer(output, sink, line_prefix(output.identifier, subtask, task.parallelism))
            for output in task.outputs
        }
        self._chain = CompiledChain(task.chain, self._buffers, lambda operator: self._context(operator, None))

    def open(self) -> None:
        """Open the functions, the last of the chain first. State must have been restored by now."""
        self._chain.open()
        head = self.task.head
        if head is not None and isinstance(head.function, Function):
            head.function.open(self._context(head, self.backend))
        self._process = self._make_process()

    def close(self) -> None:
        """Close the functions and the backend."""
        head = self.task.head
        if head is not None and isinstance(head.function, Function):
            head.function.close()
        self._chain.close()
        if self.backend is not None:
            self.backend.close()

    def process_batch(self, batch: pa.RecordBatch) -> None:
        """Run the functions over the rows of a batch."""
        self._process(batch)
        self.records_in += batch.num_rows

    def flush_output(self) -> None:
        """Hand on what the output buffers still hold."""
        for buffer in self._buffers.values():
            buffer.flush()

    def finish_epoch(self) -> None:
        """Move the epoch's writes into the backend."""
        if self.backend is not None:
            self.backend.flush_epoch()

    def roll_back_epoch(self) -> None:
        """Forget the epoch's writes and output."""
        for buffer in self._buffers.values():
            buffer.clear()
        if self.backend is not None:
            self.backend.rollback_epoch()

    def _context(self, operator: OperatorSpec, backend: KeyedStateBackend | None) -> SubtaskRuntimeContext:
        return SubtaskRuntimeContext(operator, self.task, self.subtask, self._environment, backend)

    def _make_process(self) -> Callable[[pa.RecordBatch], None]:
        decode, emit = self._codec.decode, self._chain.emit
        head, backend, key = self.task.head, self.backend, self.task.key
        if head is None or backend is None or key is None:

            def process_plain(batch: pa.RecordBatch) -> None:
                for element in decode(batch):
                    emit(element)

            return process_plain
        column, set_current_key, decode_keys = key.column, backend.set_current_key, self._decode_keys
        handle = self._element_handler(head, backend)

        def process_keyed(batch: pa.RecordBatch) -> None:
            key_groups = batch.column(KEY_GROUP_FIELD)
            self._check_route(key_groups)
            keys = decode_keys(batch.column(column))
            for current, group, element in zip(keys, key_groups.to_pylist(), decode(batch), strict=True):
                set_current_key(current, group)
                handle(element)

        return process_keyed

    def _element_handler(self, head: OperatorSpec, backend: KeyedStateBackend) -> Callable[[Any], None]:
        call, emit = plain_callable(head), self._chain.emit
        if head.kind is OperatorKind.MAP:
            return lambda element: emit(call(element))
        if head.kind is OperatorKind.FILTER:

            def run_filter(element: Any) -> None:
                if call(element):
                    emit(element)

            return run_filter
        arguments: tuple[Any, ...] = (_KeyedContext(backend),) if head.kind is OperatorKind.PROCESS else ()

        def run_many(element: Any) -> None:
            results = call(element, *arguments)
            if results is not None:
                for result in results:
                    emit(result)

        return run_many

    def _check_route(self, key_groups: pa.Array) -> None:
        """Refuse rows of foreign key groups: state must never be written where nobody will look for it."""
        bounds = pc.min_max(key_groups).as_py()
        for group in (bounds["min"], bounds["max"]):
            if group is not None and group not in self.key_groups:
                message = f"A row of key group {group} reached subtask {self.subtask}, which owns {self.key_groups}."
                raise ControlError(message, where=f"uid {self.task.uid}")
