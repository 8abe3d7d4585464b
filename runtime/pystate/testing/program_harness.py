"""A harness for an operator of a program: its function, keys and types as the program's execute() would run them.

The state may come from a checkpoint or savepoint of a job of the program.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from operator import itemgetter
from typing import Any

import pyarrow as pa

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.file_system_settings import initialize
from pystate.common.errors import StateError, UsageError
from pystate.common.key_groups import operator_index
from pystate.common.overrides import override
from pystate.common.type_info import TypeInformation
from pystate.common.user_code.user_errors import user_failure
from pystate.core.api.checkpointed import CheckpointedFunction, ListCheckpointed
from pystate.core.api.output_tag import OutputTag
from pystate.core.api.timer_service import TimeDomain
from pystate.core.api.transformations import (
    KeyByTransformation,
    OneInputTransformation,
    Partitioning,
    PartitionTransformation,
    SideOutputTransformation,
    Transformation,
    TwoInputTransformation,
)
from pystate.core.api.window.window_operation import WindowOperation
from pystate.core.records.codec import TIMESTAMP_FIELD
from pystate.core.snapshot.handles.handles import ByteStreamStateHandle
from pystate.core.snapshot.handles.incremental_handle import IncrementalKeyedStateHandle
from pystate.core.snapshot.handles.keyed_state_handle import KeyedStateHandle
from pystate.core.snapshot.operator_state import OperatorState
from pystate.core.snapshot.reading.opened_snapshot import OpenedSnapshot
from pystate.core.snapshot.state_assignment import JobVertex, StateAssignmentOperation
from pystate.core.snapshot.storage.snapshot_location import MEMORY_SCHEME
from pystate.core.state.base.abstract_backend import AbstractKeyedStateBackend
from pystate.core.state.files.canonical import CanonicalReader
from pystate.core.state.keys.keys import KeyCodec
from pystate.core.state.operator.broadcast_state import OperatorBroadcastState
from pystate.runtime.plan.chain import function_object
from pystate.runtime.plan.named_key_column import named_key_column
from pystate.runtime.slot.operators.windowing.window_namespaces import window_namespaces
from pystate.runtime.slot.snapshots.frozen_task import CANONICAL_KEYED_STATE
from pystate.runtime.slot.snapshots.restored_operator import RestoredOperator
from pystate.runtime.slot.state_of_keys import state_of_keys
from pystate.runtime.slot.timers.internal_timer_service import InternalTimerService
from pystate.testing.harness import MAX_PARALLELISM, HarnessInput, OperatorTestHarness
from pystate.testing.operator_snapshot import UID, OperatorSnapshot

Step = OneInputTransformation | TwoInputTransformation
"""What a harness can be made of."""

KeyTimer = tuple[str, str, int, Any]
"""A timer of a key: the name of its service, `EVENT_TIME` or `PROCESSING_TIME`, its time, its namespace, None for none."""


class ProgramHarness(OperatorTestHarness):
    """A harness of an operator of a program, as `Program.harness` makes it.

    Attributes:
        uid: The operator's uid.
        function: The program's own function object.
        keyed: Whether the operator stands after key_by().
        at_end: What is undone when it is closed.
    """

    def __init__(
        self,
        step: Step,
        uid: str,
        configuration: Configuration,
        savepoint: str | None,
        key_of: Any,
        keys: Sequence[Any],
        share: tuple[int, int, int] | None,
        state: bytes | None,
    ) -> None:
        inputs = [_input(parent) for parent in step.parents]
        self.at_end = ExitStack()
        self.uid = uid
        self.function = step.function
        self.keyed = step.keyed
        self._selects = [one.key_selector for one in inputs]
        key_type = _key_type(step)
        snapshot, of_key_group = None, None
        backend, most, subtask, parallelism = "hashmap", step.max_parallelism or MAX_PARALLELISM, 0, 1
        if share is not None:
            subtask, parallelism, most = share
        elif state is not None:
            most = CanonicalReader(io.BytesIO(state), where=uid).header.max_parallelism
        if savepoint is not None:
            initialize(configuration)
            snapshot = OpenedSnapshot(savepoint)
            operator = snapshot.operator(uid)
            most = operator.max_parallelism
            handles = [handle for one in operator.subtasks.values() for handle in one.keyed_state]
            if any(isinstance(handle, IncrementalKeyedStateHandle) for handle in handles):
                backend = "rocksdb"
        if key_of is not None and self._selects[0] is not None:
            keys = [_key(self._selects[0], key_of, uid)]
        if keys and savepoint is not None:
            codec = KeyCodec(key_type)  # a subtask with this one key group: no other state is read
            of_key_group = codec.key_group(codec.internal(keys[0]), most)
            subtask, parallelism = of_key_group, most
        super().__init__(
            step.kind,
            step.function,
            inputs,
            key_type=key_type,
            descriptors=step.descriptors if isinstance(step, TwoInputTransformation) else (),
            side_outputs=[
                OutputTag(child.tag, child.output_type)
                for child in step.children
                if isinstance(child, SideOutputTransformation)
            ],
            output_type=step.output_type,
            parallelism=parallelism,
            subtask_index=subtask,
            max_parallelism=most,
            state_backend=backend,
            job_parameters=configuration.to_dict(),
        )
        if snapshot is not None:
            self.initialize_state(_share(snapshot, snapshot.operator(uid), subtask, parallelism, of_key_group))
        elif state is not None:
            handle = KeyedStateHandle(0, most - 1, CANONICAL_KEYED_STATE, ByteStreamStateHandle(state))
            restored = RestoredOperator(f"{MEMORY_SCHEME}/test", [handle])
            self.initialize_state(OperatorSnapshot(None, subtask, parallelism, most, None, restored))
        self.open()

    @override
    def close(self) -> None:
        with self.at_end:
            super().close()

    @property
    def num_inputs(self) -> int:
        """The number of its inputs."""
        return len(self._selects)

    @property
    def has_operator_state(self) -> bool:
        """Whether the function takes part in checkpoints itself: its state is of the subtask, not of keys."""
        return isinstance(function_object(self.function), (CheckpointedFunction, ListCheckpointed))

    def has_key(self, input_number: int = 1) -> bool:
        """Return whether the elements of an input, 1 or 2, have keys; those of a broadcast stream have none.

        Raises:
            UsageError: The operator has no such input.
        """
        return self._selects[self._index(input_number)] is not None

    def key_of(self, element: Any, input_number: int = 1) -> Any:
        """Return the key of an element of an input, 1 or 2; None without key_by()."""
        select = self._selects[self._index(input_number)]
        return None if select is None else _key(select, element, self.uid)

    def process(self, element: Any, timestamp: int | None = None, *, input_number: int = 1) -> None:
        """Process an element of an input, 1 or 2; its timestamp is in ms since 1970, None for none."""
        self._process(self._index(input_number), [element], [timestamp])

    def process_watermark(self, timestamp: int, *, input_number: int = 1) -> None:
        """Advance the event time of an input, ms since 1970, and fire the timers that are due."""
        self._process_watermark(self._index(input_number), timestamp)

    def _index(self, input_number: int) -> int:
        if not 1 <= input_number <= len(self._selects):
            message = f"The operator {self.uid!r} has no input {input_number}."
            hint = "leave the input out: it has one" if len(self._selects) == 1 else "name input 1 or 2"
            raise UsageError(message, hint=hint)
        return input_number - 1

    def elements(self, batch: pa.RecordBatch, input_index: int) -> Iterator[tuple[Any, int | None]]:
        """Yield (element, timestamp) of a batch of rows, as the job's subtask gets them.

        Args:
            batch: The rows.
            input_index: The index of the input, from 0.
        """
        place = batch.schema.get_field_index(TIMESTAMP_FIELD)
        times = [None] * batch.num_rows if place < 0 else batch.column(place).to_pylist()
        yield from zip(self._codecs[input_index].decode(batch), times, strict=True)

    def get_keyed_state(self, key: Any) -> dict[str, Any]:
        """Return what the states of a key hold, by name, the current epoch included; without those of windows."""
        backend = self._chain.backend
        return backend.values_of_key(key) if isinstance(backend, AbstractKeyedStateBackend) else {}

    def put_keyed_state(self, key: Any, values: Mapping[str, Any]) -> None:
        """Set what declared states of a key hold, by name.

        Raises:
            StateError: There is no such state, or a value isn't of its type.
        """
        backend = self._own_backend()
        self._begin()
        backend.put_values_of_key(key, values)

    def get_window_state(self, key: Any) -> dict[str, dict[Any, Any]]:
        """Return what the states of a key's windows hold, by name and namespace; ends the current epoch.

        A namespace is what a window is stored by: (start, end) of a `TimeWindow`, the number of a `CountWindow`, 0 for the
        global window.
        """
        self._between_epochs()
        backend = self._chain.backend
        return backend.window_values_of_key(key) if isinstance(backend, AbstractKeyedStateBackend) else {}

    def put_window_state(self, key: Any, values: Mapping[str, Mapping[Any, Any]]) -> None:
        """Set what the states of a key's windows hold, by name and namespace, as a finished epoch of its own.

        Raises:
            StateError: There is no such state, or a value isn't of its type.
        """
        self._begin()
        self._own_backend().put_window_values_of_key(key, values)
        self.end_epoch()

    def window_of(self, namespace: Any) -> Any:
        """Return the window that is stored by a namespace, in an operator of windows; else the namespace."""
        function = self.function
        return window_namespaces(function.assigner).window(namespace) if isinstance(function, WindowOperation) else namespace

    def get_timers(self, key: Any) -> list[KeyTimer]:
        """Return the timers of a key, those of the current epoch included, ordered by time."""
        internal, found = self._key_codec.internal(key), []
        for name, service in self._timer_services().items():
            for domain in TimeDomain:
                external = service.namespaces.external
                for timer in service.timers(domain):
                    if timer.key == internal:
                        found.append((name, domain.name, timer.timestamp, external(timer.namespace)))
        return sorted(found, key=itemgetter(2))

    def put_timers(self, key: Any, timers: Iterable[KeyTimer]) -> None:
        """Register timers of a key, as a finished epoch of its own."""
        self._begin()
        services = self._timer_services()
        with self._own_backend().current(key):
            for name, domain, timestamp, namespace in timers:
                service = services[name]
                event = TimeDomain[domain] is TimeDomain.EVENT_TIME
                register = service.register_event_time_timer if event else service.register_processing_time_timer
                register(namespace, timestamp)
        self.end_epoch()

    def keep_timers_of(self, key: Any) -> None:
        """Delete the timers of all other keys, as a finished epoch of its own."""
        self._begin()
        internal = self._key_codec.internal(key)
        for service in self._timer_services().values():
            for domain in TimeDomain:
                service.remove_all([timer for timer in service.timers(domain) if timer.key != internal], domain)
        self.end_epoch()

    def rise(self, watermark: int, *, input_number: int = 1) -> int | None:
        """Advance the event time of an input without firing timers yet: `fire` does so.

        Returns:
            The operator's event time, if it has advanced.
        """
        self._begin()
        return self._chain.watermarks.rise(watermark, self._index(input_number))

    def set_clock(self, milliseconds: int) -> None:
        """Set the processing time without firing timers yet: `fire` does so."""
        self._now = milliseconds

    def next_timer(self, domain: TimeDomain) -> int | None:
        """Return the time of the first timer of a domain, of any key; None if there is none."""
        timers = (timer.timestamp for service in self._timer_services().values() for timer in service.timers(domain))
        return min(timers, default=None)

    def fire(self, domain: TimeDomain, time: int) -> None:
        """Fire the timers that are due at a time, and what they emit."""
        self._begin()
        head = self._chain.operators[-1]
        (head.advance_watermark if domain is TimeDomain.EVENT_TIME else head.advance_processing_time)(time)

    def state_of_key(self, key: Any) -> bytes:
        """Return the keyed state and the timers of a key as a canonical file; ends the current epoch."""
        self._between_epochs()
        return state_of_keys(self._own_backend(), [self._key_codec.internal(key)], sys.maxsize)

    @property
    def has_undeclared_state(self) -> bool:
        """Whether it was restored with state that isn't declared yet, as that of triggers before their first call."""
        backend = self._own_backend()
        return len(backend.state_names()) > backend.declared_count

    def _own_backend(self) -> AbstractKeyedStateBackend:
        backend = self._chain.backend
        if not isinstance(backend, AbstractKeyedStateBackend):
            message = "The operator has no keyed state."
            raise StateError(message)
        return backend

    def _timer_services(self) -> Mapping[str, InternalTimerService]:
        timers = self._chain.operators[-1].timers
        return {} if timers is None else timers.services

    def get_broadcast_state(self) -> dict[str, dict[Any, Any]]:
        """Return the entries of the broadcast states, by name, the current epoch included."""
        return {name: dict(state.items()) for name, state in self._broadcast_states().items()}

    def put_broadcast_state(self, values: Mapping[str, Mapping[Any, Any]]) -> None:
        """Add entries to broadcast states, by name.

        Raises:
            StateError: There is no such state, or a value isn't of its type.
        """
        self._begin()
        states = self._broadcast_states()
        for name, entries in values.items():
            if name not in states:
                message = f"No broadcast state {name!r} is declared; there are {', '.join(map(repr, states)) or 'none'}."
                raise StateError(message)
            states[name].put_all(entries)

    def _broadcast_states(self) -> dict[str, OperatorBroadcastState]:
        head = self._chain.operators[-1]
        return {one.name: head.state.broadcast_state(one) for one in head.spec.descriptors}


def _input(parent: Transformation) -> HarnessInput:
    if not isinstance(parent, KeyByTransformation):
        broadcast = isinstance(parent, PartitionTransformation) and parent.partitioning is Partitioning.BROADCAST
        return HarnessInput(parent.output_type, broadcast=broadcast)
    column, selector = parent.column, parent.selector
    if column is not None:
        return HarnessInput(parent.output_type, lambda element: element[column])
    return HarnessInput(parent.output_type, getattr(selector, "get_key", selector))


def _key(select: Callable[[Any], Any], element: Any, uid: str) -> Any:
    try:
        return select(element)
    except Exception as error:
        raise user_failure(error, f"key_by() before {uid!r}, {element!r}") from error


def _key_type(step: Step) -> TypeInformation | None:
    for parent in step.parents:
        if isinstance(parent, KeyByTransformation):
            if parent.column is None:
                return parent.key_type
            return named_key_column(parent.column, parent.parent.output_type, parent.key_type, parent.place).key_type
    return None


def _share(
    snapshot: OpenedSnapshot, operator: OperatorState, subtask: int, parallelism: int, of_key_group: int | None
) -> OperatorSnapshot:
    metadata = replace(snapshot.metadata, operators=[replace(operator, uid=UID, name=UID)])

    def share(subtask: int, parallelism: int) -> RestoredOperator:
        vertex = JobVertex(UID, UID, parallelism, operator.max_parallelism)
        assignment = StateAssignmentOperation(metadata, [vertex]).assign()
        return RestoredOperator.of(assignment, UID, subtask, snapshot.location.uri)

    restored = share(subtask, parallelism)
    if of_key_group is not None:  # the list state that its key had beside it
        owner = share(operator_index(of_key_group, operator.parallelism, operator.max_parallelism), operator.parallelism)
        restored = replace(restored, operator_state=owner.operator_state, raw_operator_state=owner.raw_operator_state)
    number = metadata.checkpoint_id
    return OperatorSnapshot(number, subtask, parallelism, operator.max_parallelism, None, restored)
