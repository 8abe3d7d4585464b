"""The keyed state backend of one subtask: the interface that the slot drives, the same for every backend.

The life of an epoch: `set_current_key` before each record, reads and writes through the states, then `flush_epoch` (its
writes become part of the backend) or `rollback_epoch` (they are gone). A running epoch lives in an overlay of objects, so
that a key that is used often is read and written once per epoch. `snapshot` sees flushed epochs only, whatever runs
meanwhile.

One thread owns the backend. Only `KeyedStateSnapshot`'s methods may be called from others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO

from pystate.api.state import MergingState, State, StateDescriptor
from pystate.common.configuration import Configuration
from pystate.common.errors import CorruptSnapshotError, RestoreError, StateDeclarationError, StateError
from pystate.common.key_groups import KeyGroupRange, check_max_parallelism
from pystate.common.time import current_time_ms
from pystate.metrics.sample import MetricSample
from pystate.state.base.canonical import CanonicalHeader, CanonicalReader, Entry, StateMetaInfoSnapshot
from pystate.state.base.compression import snapshot_codec
from pystate.state.base.keys import KEY_ENCODING, KeyCodec, KeyCompatibility, check_key_compatible, key_type_name
from pystate.state.base.namespaces import VOID, NamespaceSerializer
from pystate.state.base.native import NativeSnapshot, NativeSource
from pystate.state.base.ttl.cleanup import EntryFilter, snapshot_filter

if TYPE_CHECKING:
    from pystate.state.base.addresses import KeyContext
    from pystate.state.base.internal_state import InternalKvState
    from pystate.state.base.overlay import EpochOverlay, OverlayState
    from pystate.state.base.priority_queue import KeyGroupedPriorityQueue
    from pystate.state.base.timer_schema import TimerSchema


class _NoKey:
    __slots__ = ()

    def __repr__(self) -> str:
        return "no current key"


NO_KEY = _NoKey()
"""What `active_key` is outside of a record."""


VISITS_PER_LOOK = 1_000
"""After so many keys of `apply_to_all_keys` the size of the epoch is looked at."""


@dataclass(frozen=True)
class KeyedStateSnapshotStats:
    """What a snapshot wrote: number of entries, and bytes of the file."""

    entries: int
    bytes: int


class KeyedStateSnapshot(ABC):
    """A frozen view of the last flushed epoch, written from any thread. `release` it in the end, whatever happened."""

    @abstractmethod
    def write_canonical(self, sink: BinaryIO) -> KeyedStateSnapshotStats:
        """Write the view as a canonical file. The caller opens and closes the sink.

        Raises:
            SnapshotError: The snapshot was released before or meanwhile, or an entry can't be written.
        """

    @abstractmethod
    def release(self) -> None:
        """Give the view up; a writer that is at work stops with an error. May be called again, and from any thread."""


class KeyedStateBackend(ABC):
    """Keyed state of one subtask.

    Args:
        key_codec: The keys' type.
        key_group_range: The key groups of this subtask.
        max_parallelism: The number of key groups in all.
        working_directory: A folder that exists, for a folder of the backend's own; None for backends that keep no files.
        configuration: The options in force; None for the defaults.
        clock: The time by which values expire, ms since 1970, 0 or more.

    Attributes:
        active_key: Internal form of the current key. States read it at each access; `set_current_key` sets it.
        active_key_group: Key group of the current key.
    """

    __slots__ = (
        "_handles",
        "_overlays",
        "_queues",
        "_records",
        "_visits",
        "active_key",
        "active_key_group",
        "clock",
        "configuration",
        "key_codec",
        "key_group_range",
        "max_parallelism",
        "working_directory",
    )

    def __init__(
        self,
        *,
        key_codec: KeyCodec,
        key_group_range: KeyGroupRange,
        max_parallelism: int,
        working_directory: str | None = None,
        configuration: Configuration | None = None,
        clock: Callable[[], int] = current_time_ms,
    ) -> None:
        check_max_parallelism(max_parallelism)
        if key_group_range.end >= max_parallelism:
            message = f"There are no key groups {key_group_range} at a max parallelism of {max_parallelism}."
            raise ValueError(message)
        self.key_codec = key_codec
        self.key_group_range = key_group_range
        self.max_parallelism = max_parallelism
        self.working_directory = working_directory
        self.configuration = Configuration() if configuration is None else configuration
        self.clock = clock
        self.active_key: Hashable = NO_KEY
        self.active_key_group = -1
        self._handles: dict[str, InternalKvState] = {}
        self._queues: dict[str, KeyGroupedPriorityQueue] = {}
        self._overlays: dict[str, EpochOverlay] = {}  # of all that was declared, by the names of states
        self._records = 0
        self._visits = 0  # calls of apply_to_all_keys under way, one in another

    def set_current_key(self, internal_key: Hashable, key_group: int) -> None:
        """Set the key that states are scoped to until the next call, or the end of the epoch.

        Args:
            internal_key: As `key_codec.internal` gives it.
            key_group: Its key group. Trusted here; the first access of a key in an epoch checks that it is this subtask's.
        """
        self.active_key = internal_key
        self.active_key_group = key_group

    def limit_epoch(self, records: int, size: int) -> None:  # noqa: B027 - most have nothing to do
        """Say that so many records of so many bytes were processed, so that a backend may see to the size of the epoch.

        Where it takes more memory than it may, a backend that can moves it to where a rollback still drops it.
        No record must be under way: objects that states handed out are then cut off, as at the end of the epoch.

        Raises:
            StateError: A value isn't of its state's type, or the backend can't write. The epoch must be rolled back.
        """

    def count_records(self, count: int) -> None:
        """Say that so many records were processed; a clean-up that runs for every record goes by it."""
        self._records += count

    def prefetch(self, keys: Sequence[Hashable], key_groups: Sequence[int]) -> None:  # noqa: B027 - most have nothing to do
        """Say which keys come next, so that a backend may read ahead for them. Changes nothing but the time it takes.

        Args:
            keys: Internal keys in order, each as often as it comes.
            key_groups: Of the keys; all are this subtask's.

        Raises:
            StateError: The backend can't read.
        """

    @property
    def current_key(self) -> Any:
        """The current key as user code sees it.

        Raises:
            StateError: There is no current key.
        """
        if self.active_key is NO_KEY:
            raise self.no_key_error()
        return self.key_codec.external(self.active_key)

    def no_key_error(self) -> StateError:
        """Return the error for an access outside of a record."""
        message = "Keyed state was used where there is no current key."
        return StateError(message, hint="use keyed state in process_element and on_timer only, not in open() or in threads")

    def shown(self, key: Hashable) -> str:
        """Return an internal key for people."""
        return f"key {self.key_codec.external(key)!r}"

    def get_partitioned_state(self, descriptor: StateDescriptor) -> State:
        """Return the state a descriptor declares, in the void namespace; see `get_or_create_keyed_state`."""
        state: State = self.get_or_create_keyed_state(descriptor).state
        return state

    def get_or_create_keyed_state(
        self, descriptor: StateDescriptor, namespaces: NamespaceSerializer = VOID
    ) -> InternalKvState:
        """Return the state a descriptor declares, with its namespaces; an equal descriptor gives the same object.

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
        known = self._handles.get(descriptor.name)
        if known is None:
            return self._declared(descriptor, namespaces)
        if known.descriptor != descriptor:
            message = f"State {descriptor.name!r} is declared twice: as {known.descriptor!r} and as {descriptor!r}."
            raise StateDeclarationError(message, hint="give one of them another name")
        if known.namespaces != namespaces:
            types = f"{known.namespaces.name} and {namespaces.name}"
            message = f"State {descriptor.name!r} is declared in namespaces of two types, {types}."
            raise StateDeclarationError(message, hint="give one of them another name")
        return known

    def _declared(self, descriptor: StateDescriptor, namespaces: NamespaceSerializer) -> InternalKvState:
        from pystate.state.base.internal_state import InternalKvState, InternalMergingState, NamespaceScope

        if descriptor.name in self._queues:
            message = f"{descriptor.name!r} is declared twice: as a state and as timers."
            raise StateDeclarationError(message, hint="give the state another name")
        scope = None if namespaces.is_void else NamespaceScope(self, namespaces, descriptor.name)
        state, overlay = self._create_state(descriptor, namespaces, self if scope is None else scope)
        handle_class = InternalMergingState if isinstance(state, MergingState) else InternalKvState
        handle = handle_class(descriptor, namespaces, scope, state, overlay)
        self._handles[descriptor.name] = handle
        self._overlays[descriptor.name] = overlay
        return handle

    def get_priority_queue(self, schema: TimerSchema) -> KeyGroupedPriorityQueue:
        """Return the timers of a service; an equal schema gives the same object.

        Raises:
            StateError: The name is taken by other state, or by timers in other namespaces.
            RestoreError: The restored state of this name isn't these timers.
        """
        known = self._queues.get(schema.name)
        if known is None:
            if schema.name in self._handles:
                message = f"{schema.name!r} is declared twice: as a state and as timers."
                raise StateDeclarationError(message, hint="give the state another name")
            known = self._queues[schema.name] = self._create_queue(schema)
            self._overlays[schema.name] = known
        elif known.schema != schema:
            message = f"Timers are declared twice: as {known.schema} and as {schema}."
            raise StateDeclarationError(message, hint="give one of the timer services another name")
        return known

    @abstractmethod
    def _create_queue(self, schema: TimerSchema) -> KeyGroupedPriorityQueue:
        """Make the queue of timers, on top of restored ones where there are any."""

    def get_keys(self, state_name: str, namespace: Any = None) -> Iterator[Any]:
        """Iterate over the keys that have a value of a declared state in a namespace by now, in no order to rely on.

        What is done with state meanwhile neither shows nor harms. Close the iteration before the epoch ends.

        Args:
            state_name: The state's name.
            namespace: One of the state's; None for the void one.

        Raises:
            StateError: No such state was declared, or its namespaces are of another type.
        """
        wanted = self._handle(state_name).namespaces.internal(namespace)
        return (key for key, found in self._keys_and_namespaces(state_name) if found == wanted)

    def get_keys_and_namespaces(self, state_name: str) -> Iterator[tuple[Any, Any]]:
        """Iterate over (key, namespace) of all values of a declared state; see `get_keys`."""
        external = self._handle(state_name).namespaces.external
        return ((key, external(namespace)) for key, namespace in self._keys_and_namespaces(state_name))

    def _handle(self, state_name: str) -> InternalKvState:
        handle = self._handles.get(state_name)
        if handle is None:
            message = f"No state {state_name!r} was declared."
            raise StateError(message, hint="declare it first: get_or_create_keyed_state")
        return handle

    def _keys_and_namespaces(self, state_name: str) -> Iterator[tuple[Any, Hashable]]:
        handle, external = self._handle(state_name), self.key_codec.external
        overlay = handle.overlay
        with closing(overlay.all_keys()) as addresses:
            for address, key_group in addresses:
                held = overlay.holds(address)
                has_value = self._has_value(handle, address, key_group)
                if not held:
                    overlay.settle(address)
                if has_value:
                    key, namespace = handle.split(address)
                    yield external(key), namespace

    def _has_value(self, handle: InternalKvState, address: Hashable, key_group: int) -> bool:
        before = self.active_key, self.active_key_group
        self.active_key, self.active_key_group = handle.split(address)[0], key_group
        try:
            return handle.has_value(address)
        finally:
            self.active_key, self.active_key_group = before

    def apply_to_all_keys(self, descriptor: StateDescriptor, function: Callable[[Any, Any], object]) -> None:
        """Call a function for each key that has a value of a state by now, in the void namespace, once, in any order.

        The function may write any state of the key it is called for. The current key is afterwards what it was before. What
        a call was handed out is cut off when it returns, as at the end of an epoch: keys that were only read leave nothing.

        Args:
            descriptor: Of the state.
            function: Gets the key as user code sees it, and the state, which is scoped to that key.

        Raises:
            StateError, RestoreError: See `get_partitioned_state`.
        """
        state = self.get_partitioned_state(descriptor)
        overlay = self._handles[descriptor.name].overlay
        external = self.key_codec.external
        before = self.active_key, self.active_key_group
        self._visits += 1
        try:
            with closing(overlay.all_keys()) as keys:
                for visited, (key, key_group) in enumerate(keys, start=1):
                    self.active_key, self.active_key_group = key, key_group
                    held = overlay.holds(key)
                    if overlay.has_value():
                        function(external(key), state)
                    if not held:
                        overlay.settle(key)
                    if visited % VISITS_PER_LOOK == 0 and self._visits == 1:  # else a function further out is at work
                        self.limit_epoch(VISITS_PER_LOOK, 0)
        finally:
            self._visits -= 1
            self.active_key, self.active_key_group = before

    @abstractmethod
    def _create_state(
        self, descriptor: StateDescriptor, namespaces: NamespaceSerializer, context: KeyContext
    ) -> tuple[State, OverlayState]:
        """Make the state object and its running epoch, on top of restored values where there are any.

        Args:
            descriptor: What is declared.
            namespaces: Of its namespaces.
            context: Whose current address counts.
        """

    def _snapshot_filters(self) -> dict[str, EntryFilter]:
        """Return what leaves expired values out of a snapshot that is taken now, by the names of the states it is for."""
        now = self.clock()
        filters = {name: snapshot_filter(handle.descriptor, now) for name, handle in self._handles.items()}
        return {name: keep for name, keep in filters.items() if keep is not None}

    @abstractmethod
    def flush_epoch(self) -> None:
        """End the epoch: what it wrote becomes part of the backend. Costs time by touched keys.

        Objects that user code kept are cut off: changing them later changes nothing.

        Raises:
            StateError: A value isn't of its state's type; then nothing was flushed, and the epoch must be rolled back.
        """

    @abstractmethod
    def rollback_epoch(self) -> None:
        """Drop all the running epoch did, in-place changes included. Costs time by touched keys."""

    @abstractmethod
    def snapshot(self) -> KeyedStateSnapshot:
        """Freeze the last flushed epoch: the part that stops processing, independent of the state's size."""

    @abstractmethod
    def restore(self, sources: Iterable[BinaryIO]) -> None:
        """Fill an empty backend from canonical files, keeping the key groups of `key_group_range` only.

        Args:
            sources: Files open for reading that can seek: those of all old subtasks, or only those with key groups of ours.
                Each is read to its end before the next is asked for, so a generator may open and close them.

        Raises:
            CorruptSnapshotError: A file is damaged.
            RestoreError: A sound file doesn't fit: key type, key encoding, max parallelism.
            StateError: The backend isn't empty.
        """

    def metric_samples(self) -> Sequence[MetricSample]:
        """Return what the backend measures of itself, without an operator. Called from any thread, about once a second."""
        return ()

    @property
    def native_format(self) -> str | None:
        """The format of the native snapshots that it takes and reads; None for a backend that has none."""
        return None

    def snapshot_native(self) -> NativeSnapshot | None:
        """Freeze the last flushed epoch as the backend's own files; None for a backend that has none.

        Raises:
            StateError: The files can't be made.
        """
        return None

    def restore_native(self, sources: Sequence[NativeSource]) -> int | None:
        """Fill an empty backend from native snapshots of old subtasks, keeping the key groups of `key_group_range` only.

        Args:
            sources: One or more. The backend removes their folders, now or when it is closed.

        Returns:
            The index of the source whose shared files the backend goes on with under their old names; None for none.

        Raises:
            RestoreError: They don't fit, or this backend reads no native snapshots.
            CorruptSnapshotError: One is damaged.
            StateError: The backend isn't empty.
        """
        raise unreadable_native(["other"], type(self).__name__)

    @abstractmethod
    def state_names(self) -> list[str]:
        """Return the names of all states, restored ones that nobody declared included."""

    @abstractmethod
    def entry_count(self) -> int:
        """Return the number of flushed entries in all states: values, map entries, parts of lists (one or more a key)."""

    @abstractmethod
    def close(self) -> None:
        """Free what the backend holds. Open snapshots stay readable until they are released."""


def unreadable_native(formats: Iterable[str], backend: str) -> RestoreError:
    """Return the error for a native snapshot of another backend.

    Args:
        formats: Whose files it is made of.
        backend: What shall read it, for people.
    """
    message = (
        f"The snapshot is native or incremental: its keyed state is in the own files of the {' and '.join(sorted(formats))} "
        f"state backend that took it, which {backend} can't read."
    )
    hint = "start with the old state backend, take a savepoint of the canonical format, and start from that with the new one"
    return RestoreError(message, hint=hint)


def canonical_header(backend: KeyedStateBackend, states: Iterable[StateMetaInfoSnapshot]) -> CanonicalHeader:
    """Return the header of a canonical file of a backend."""
    return CanonicalHeader(
        key_type=backend.key_codec.key_type,
        key_encoding=KEY_ENCODING,
        max_parallelism=backend.max_parallelism,
        key_group_range=backend.key_group_range,
        states=tuple(states),
        compression=snapshot_codec(backend.configuration),
    )


def check_header_fits(header: CanonicalHeader, backend: KeyedStateBackend) -> None:
    """Refuse a canonical file that a backend can't take.

    Raises:
        RestoreError: Key encoding, max parallelism or key type differ.
    """
    if header.key_encoding != KEY_ENCODING:
        message = f"The snapshot's keys are written as {header.key_encoding!r}; this pystate reads {KEY_ENCODING!r}."
        raise RestoreError(message, hint="restore with the pystate version that wrote the snapshot, or a newer one")
    if header.max_parallelism != backend.max_parallelism:
        message = (
            f"The snapshot was written with max parallelism {header.max_parallelism}, the operator has "
            f"{backend.max_parallelism}; it can't change."
        )
        raise RestoreError(message, hint=f"set the max parallelism to {header.max_parallelism}")
    if check_key_compatible(header.key_type, backend.key_codec.key_type) is KeyCompatibility.INCOMPATIBLE:
        old, new = key_type_name(header.key_type), key_type_name(backend.key_codec.key_type)
        message = f"The snapshot's keys are {old}, the operator's are {new}; the type of a key can't change."
        raise RestoreError(message, hint="give key_by the key type the state was written with")


def restored_entries(
    reader: CanonicalReader, backend: KeyedStateBackend, state: StateMetaInfoSnapshot
) -> Iterator[tuple[int, Iterator[Entry]]]:
    """Iterate over the entries of a part of a state that are the backend's: (key group, entries).

    Key groups without any are left out.

    The first key of each key group is decoded and checked to hash to it. Where the file has keys of another type than the
    backend, all keys are decoded, which checks that each is one of the backend's type; its bytes are then the same.

    Raises:
        CorruptSnapshotError, RestoreError: See `KeyedStateBackend.restore`.
    """
    codec = backend.key_codec
    for key_group in reader.key_groups():
        if key_group not in backend.key_group_range:
            continue
        entries = reader.entries(state, key_group)
        first = next(entries, None)
        if first is None:
            continue
        key = codec.decode(first[0])
        if codec.key_group(key, backend.max_parallelism) != key_group:
            shown = codec.external(key)
            message = f"State {state.name!r} has key {shown!r} in key group {key_group}, where it doesn't belong."
            raise CorruptSnapshotError(message)
        if reader.header.key_type != codec.key_type:
            entries = _decoded(entries, codec)
        yield key_group, chain((first,), entries)


def _decoded(entries: Iterator[Entry], codec: KeyCodec) -> Iterator[Entry]:
    decode = codec.decode
    for entry in entries:
        decode(entry[0])
        yield entry
