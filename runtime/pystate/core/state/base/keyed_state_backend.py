"""The interface of the keyed state backend of one subtask, the same for all backends.

The life of an epoch: `set_current_key` before each record, reads and writes through the states, then `flush_epoch` (its
writes become part of the backend) or `rollback_epoch` (they are gone). A running epoch is held in an overlay of objects, so
that a frequently used key is read and written once per epoch. `snapshot` only sees flushed epochs.

For operators with their own windows or timers, there are:

- `get_or_create_keyed_state` with the namespaces of a window's state; `set_current_namespace` of the returned state, before
each access; `InternalMergingState.merge_namespaces` for merging windows;
- `get_priority_queue` for timers, which are ordered by time; the queue's `timer` takes the current key;
- `key_context`, whose `set_current_key` a timer service calls before a timer fires.

One thread owns the backend. Only `KeyedStateSnapshot`'s methods may be called from other threads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import StateError
from pystate.common.key_groups import KeyGroupRange
from pystate.core.api.state import State, StateDescriptor
from pystate.core.metrics.sample import MetricSample
from pystate.core.state.base.backend_snapshot import KeyedStateSnapshot, NativeSnapshot, NativeSource, unreadable_native
from pystate.core.state.keys.key_context import InternalKeyContext
from pystate.core.state.keys.keys import KeyCodec
from pystate.core.state.keys.namespaces import VOID, NamespaceSerializer

if TYPE_CHECKING:
    from pystate.core.state.base.priority_queue import KeyGroupedPriorityQueue
    from pystate.core.state.base.queryable_states import CommittedView, QueryableStateInfo
    from pystate.core.state.base.timer_schema import TimerSchema
    from pystate.core.state.kinds.internal_state import InternalKvState


class KeyedStateBackend(ABC):
    """Keyed state of one subtask. Most backends extend `AbstractKeyedStateBackend`, which has the common parts.

    Attributes:
        key_context: The current key.
        configuration: The options in force.
        working_directory: An existing folder, for a subfolder of the backend; None for backends without files.
    """

    __slots__ = ()

    key_context: InternalKeyContext
    configuration: Configuration
    working_directory: str | None

    @property
    def key_codec(self) -> KeyCodec:
        """The codec of the keys."""
        return self.key_context.key_codec

    @property
    def key_group_range(self) -> KeyGroupRange:
        """The key groups of this subtask."""
        return self.key_context.key_group_range

    @property
    def max_parallelism(self) -> int:
        """The total number of key groups."""
        return self.key_context.max_parallelism

    @property
    def kept_bytes(self) -> int:
        """The approximate memory that each operator may keep of finished epochs, until `EpochBuffer.write_back` is called.

        0 for a backend that doesn't call it.
        """
        return 0

    @property
    def current_key(self) -> Any:
        """The current key as user code sees it.

        Raises:
            StateError: There is no current key.
        """
        return self.key_context.current_key

    def set_current_key(self, internal_key: Hashable, key_group: int) -> None:
        """Set the key that states are scoped to until the next call, or the end of the epoch; see `InternalKeyContext`."""
        self.key_context.set_current_key(internal_key, key_group)

    @abstractmethod
    def get_partitioned_state(self, descriptor: StateDescriptor) -> State:
        """Return the state declared by a descriptor, in the void namespace; see `get_or_create_keyed_state`."""

    @abstractmethod
    def get_or_create_keyed_state(
        self, descriptor: StateDescriptor, namespaces: NamespaceSerializer = VOID
    ) -> InternalKvState:
        """Return the state declared by a descriptor, with its namespaces; an equal descriptor returns the same object.

        Restored values of an older type that the new one can take over are converted now, all of them.

        Args:
            descriptor: What is declared.
            namespaces: Of the namespaces that the state is in.

        Returns:
            An `InternalMergingState` where the namespaces of the state's kind can be merged.

        Raises:
            StateError: The name is taken by a state of another kind, type or function, or in other namespaces.
            RestoreError: The restored state of this name can't be read as what is declared.
        """

    @abstractmethod
    def get_priority_queue(self, schema: TimerSchema) -> KeyGroupedPriorityQueue:
        """Return the timers of a service in one time domain; an equal schema returns the same object.

        Raises:
            StateError: The name is taken by other state, or by timers in other namespaces.
            RestoreError: The restored state of this name isn't these timers.
        """

    @abstractmethod
    def get_keys(self, state_name: str, namespace: Any = None) -> Iterator[Any]:
        """Iterate over the keys that have a value of a declared state in a namespace, in no particular order.

        What is done with state meanwhile neither shows nor harms. Close the iteration before the epoch ends.

        Args:
            state_name: The state's name.
            namespace: One of the state's; None for the void one.

        Raises:
            StateError: No such state was declared, or its namespaces are of another type.
        """

    @abstractmethod
    def get_keys_and_namespaces(self, state_name: str) -> Iterator[tuple[Any, Any]]:
        """Iterate over (key, namespace) of all values of a declared state; see `get_keys`."""

    @abstractmethod
    def apply_to_all_keys(self, descriptor: StateDescriptor, function: Callable[[Any, Any], object]) -> None:
        """Call a function once for each key that has a value of a state in the void namespace, in any order.

        The function may write any state of the key it is called for. The current key is afterwards what it was before. What
        a call was handed out is cut off when it returns, as at the end of an epoch: keys that were only read leave nothing.

        Args:
            descriptor: Of the state.
            function: Gets the key as user code sees it, and the state, which is scoped to that key.

        Raises:
            StateError, RestoreError: See `get_partitioned_state`.
        """

    def prefetch(self, keys: Sequence[Hashable], key_groups: Sequence[int]) -> None:  # noqa: B027 - most have nothing to do
        """Announce the next keys, so that a backend may read ahead. Only affects performance.

        Args:
            keys: Internal keys in order, each as often as it comes.
            key_groups: Of the keys; all are this subtask's.

        Raises:
            StateError: The backend can't read.
        """

    def count_records(self, count: int) -> None:  # noqa: B027 - as above
        """Count processed records, for a clean-up that runs for every record."""

    def limit_epoch(self, records: int, size: int) -> None:  # noqa: B027 - as above
        """Report the number and size of processed records, so that a backend may limit the size of the epoch.

        Where it takes more memory than it may, a backend that can moves it to where a rollback still drops it.
        No record must be under way: objects that states handed out are then cut off, as at the end of the epoch.

        Raises:
            StateError: A value isn't of its state's type, or the backend can't write. The epoch must be rolled back.
        """

    @abstractmethod
    def flush_epoch(self) -> None:
        """End the epoch: its writes become part of the backend. Takes time proportional to the touched keys.

        Objects kept by user code are detached: changing them later has no effect. The current key is unset.

        Raises:
            StateError: A value isn't of its state's type; then nothing was flushed, and the epoch must be rolled back.
        """

    @abstractmethod
    def rollback_epoch(self) -> None:
        """Drop all changes of the running epoch, including in-place ones. Takes time proportional to the touched keys."""

    @abstractmethod
    def snapshot(self) -> KeyedStateSnapshot:
        """Freeze the last flushed epoch: the synchronous part of a snapshot, independent of the state's size."""

    @abstractmethod
    def restore(self, sources: Iterable[BinaryIO]) -> None:
        """Fill an empty backend from canonical files, keeping only the key groups of `key_group_range`.

        Args:
            sources: Files open for reading that can seek: those of all old subtasks, or only those with key groups of ours.
                Each is read to its end before the next is asked for, so a generator may open and close them.

        Raises:
            CorruptSnapshotError: A file is damaged.
            RestoreError: A sound file doesn't fit: key type, key encoding, max parallelism.
            StateError: The backend isn't empty.
        """

    @property
    def native_format(self) -> str | None:
        """The format of the native snapshots that it writes and reads; None if it has none."""
        return None

    def snapshot_native(self) -> NativeSnapshot | None:
        """Freeze the last flushed epoch as native files; None if the backend has none.

        Raises:
            StateError: The files can't be made.
        """
        return None

    def restore_native(self, sources: Sequence[NativeSource]) -> int | None:
        """Fill an empty backend from native snapshots of old subtasks, keeping only the key groups of `key_group_range`.

        Args:
            sources: One or more. The backend removes their folders, now or when it is closed.

        Returns:
            The index of the source whose shared files the backend keeps under their old names; None if there is none.

        Raises:
            RestoreError: They don't fit, or this backend reads no native snapshots.
            CorruptSnapshotError: One is damaged.
            StateError: The backend isn't empty.
        """
        raise unreadable_native(["other"], type(self).__name__)

    def queryable_states(self) -> Mapping[str, QueryableStateInfo]:
        """Return the declared states that can be read from outside, by their queryable names; from any thread."""
        return {}

    def committed_view(self) -> CommittedView:
        """Return a view of the queryable states as of the last flushed epoch, in time independent of their size.

        Raises:
            StateError: The backend has no views.
        """
        message = f"{type(self).__name__} can't show its state to readers from outside."
        raise StateError(message, hint="set queryable-state.enable = false, or take the state backend hashmap or rocksdb")

    def metric_samples(self) -> Sequence[MetricSample]:
        """Return the metrics of the backend, without an operator. Called from any thread, about once a second."""
        return ()

    @abstractmethod
    def state_names(self) -> list[str]:
        """Return the names of all states, including restored, undeclared ones."""

    @abstractmethod
    def entry_count(self) -> int:
        """Return the number of flushed entries in all states: values, map entries, parts of lists (one or more a key)."""

    @abstractmethod
    def close(self) -> None:
        """Free the backend. Open snapshots stay readable until they are released."""
