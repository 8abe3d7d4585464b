"""The base of keyed state backends: the declared states and timers, each with its running epoch."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import StateDeclarationError, StateError
from pystate.common.key_groups import KeyGroupRange
from pystate.common.overrides import override
from pystate.common.time import current_time_ms
from pystate.core.api.state import ListState, MapState, MergingState, State, StateDescriptor
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.core.state.base.priority_queue import KeyGroupedPriorityQueue
from pystate.core.state.base.queryable_states import QueryableStateInfo
from pystate.core.state.base.timer_schema import TimerSchema
from pystate.core.state.keys.key_context import InternalKeyContext, KeyContext
from pystate.core.state.keys.keys import KeyCodec
from pystate.core.state.keys.namespaces import VOID, NamespaceSerializer
from pystate.core.state.kinds.internal_state import InternalKvState, InternalMergingState, NamespaceScope
from pystate.core.state.kinds.overlay import EpochBuffer, EpochOverlay, OverlayState
from pystate.core.state.kinds.value_states import OverlayValueState
from pystate.core.state.ttl.ttl_cleanup_filter import EntryFilter, snapshot_filter

if TYPE_CHECKING:
    from pystate.core.state.kinds.internal_state import InternalKvState


VISITS_PER_LOOK = 1_000
"""The number of keys of `apply` after which the size of the epoch is measured."""


class KeyVisitor:
    """Makes the keys of a state current, one after the other, and restores the current key.

    Args:
        context: The key context of the backend.
        limit_epoch: See `KeyedStateBackend.limit_epoch`.
    """

    __slots__ = ("_context", "_limit_epoch", "_under_way")

    def __init__(self, context: InternalKeyContext, limit_epoch: Callable[[int, int], None]) -> None:
        self._context = context
        self._limit_epoch = limit_epoch
        self._under_way = 0  # calls of apply, one in another

    def keys_and_namespaces(self, handle: InternalKvState) -> Iterator[tuple[Any, Hashable]]:
        """Iterate over (key, internal namespace) of all values; see `KeyedStateBackend.get_keys`."""
        external, overlay = self._context.key_codec.external, handle.overlay
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
        context = self._context
        before = context.active_key, context.active_key_group
        context.set_current_key(handle.split(address)[0], key_group)
        try:
            return handle.has_value(address)
        finally:
            context.set_current_key(*before)

    def apply(self, handle: InternalKvState, function: Callable[[Any, Any], object]) -> None:
        """Call a function for each key of a state in the void namespace; see `KeyedStateBackend.apply_to_all_keys`."""
        context, overlay, state = self._context, handle.overlay, handle.state
        external = context.key_codec.external
        before = context.active_key, context.active_key_group
        self._under_way += 1
        try:
            with closing(overlay.all_keys()) as keys:
                for visited, (key, key_group) in enumerate(keys, start=1):
                    context.set_current_key(key, key_group)
                    held = overlay.holds(key)
                    if overlay.has_value():
                        function(external(key), state)
                    if not held:
                        overlay.settle(key)
                    if visited % VISITS_PER_LOOK == 0 and self._under_way == 1:  # else a function further out is at work
                        self._limit_epoch(VISITS_PER_LOOK, 0)
        finally:
            self._under_way -= 1
            context.set_current_key(*before)


logger = logging.getLogger(__name__)


class AbstractKeyedStateBackend(KeyedStateBackend):
    """The declared states and timers of a backend, by their names, and the overlays of the running epoch.

    Args:
        key_codec: The codec of the keys.
        key_group_range: The key groups of this subtask.
        max_parallelism: The total number of key groups.
        working_directory: See `KeyedStateBackend`.
        configuration: The options in force; None for the defaults.
        clock: Returns the time by which values expire, ms since 1970, 0 or more.

    Raises:
        ValueError: The key groups are invalid.
    """

    __slots__ = (
        "_handles",
        "_noticed",
        "_overlays",
        "_queryable",
        "_queues",
        "_visitor",
        "configuration",
        "key_context",
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
        self.key_context = InternalKeyContext(key_codec, key_group_range, max_parallelism, clock)
        self.working_directory = working_directory
        self.configuration = Configuration() if configuration is None else configuration
        self._handles: dict[str, InternalKvState] = {}
        self._noticed: set[str] = set()
        self._queues: dict[str, KeyGroupedPriorityQueue] = {}
        self._queryable: dict[str, QueryableStateInfo] = {}
        self._overlays: dict[str, EpochOverlay] = {}  # of all that was declared, by the names of states
        self._visitor = KeyVisitor(self.key_context, self.limit_epoch)

    @abstractmethod
    def _create_state(
        self, descriptor: StateDescriptor, namespaces: NamespaceSerializer, context: KeyContext
    ) -> tuple[State, OverlayState]:
        """Create the state object and its running epoch, on top of restored values, if any.

        Args:
            descriptor: The declaration.
            namespaces: The serializer of its namespaces.
            context: Holds the current address.
        """

    @abstractmethod
    def _create_queue(self, schema: TimerSchema) -> KeyGroupedPriorityQueue:
        """Create the queue of timers, on top of restored ones, if any."""

    @override
    def get_partitioned_state(self, descriptor: StateDescriptor) -> State:
        state: State = self.get_or_create_keyed_state(descriptor).state
        return state

    @override
    def get_or_create_keyed_state(
        self, descriptor: StateDescriptor, namespaces: NamespaceSerializer = VOID
    ) -> InternalKvState:
        known = self._handles.get(descriptor.name)
        if descriptor.queryable_state_name is not None:
            self._register_queryable(descriptor.queryable_state_name, descriptor, namespaces)
        if known is None:
            return self._declared(descriptor, namespaces)
        if known.descriptor != descriptor:
            self._check_same(known.descriptor, descriptor)
        if known.namespaces != namespaces:
            types = f"{known.namespaces.name} and {namespaces.name}"
            message = f"State {descriptor.name!r} is declared in namespaces of two types, {types}."
            raise StateDeclarationError(message, hint="give one of them another name")
        return known

    def _check_same(self, known: StateDescriptor, descriptor: StateDescriptor) -> None:
        """Reject a different declaration of a state; if only a function's code differs, give notice once."""
        refusal, name = declared_twice(known, descriptor), known.name
        if refusal is not None:
            raise refusal
        if name not in self._noticed:
            self._noticed.add(name)
            logger.warning(
                "State %r is declared in two places with functions of different code: it is one state, and the function of "
                "the first declaration is used.",
                name,
            )

    def _register_queryable(self, name: str, descriptor: StateDescriptor, namespaces: NamespaceSerializer) -> None:
        known = self._queryable.get(name)
        if known is None:
            self._queryable[name] = QueryableStateInfo.of(descriptor, namespaces, self.key_codec.key_type)
        elif known.state_name != descriptor.name:
            message = f"Two states are queryable as {name!r}: {known.state_name!r} and {descriptor.name!r}."
            raise StateDeclarationError(message, hint="give set_queryable another name for one of them")

    @property
    def declared_count(self) -> int:
        """The number of declared states and queues of timers."""
        return len(self._overlays)

    def values_of_key(self, key: Any) -> dict[str, Any]:
        """Return what the states of a key hold, by name, the running epoch included; states with namespaces are left out.

        Of reducing and aggregating states it is what is stored: the value, the accumulator.

        Args:
            key: As functions see it.
        """
        with self.current(key):
            return {name: _content(handle.state) for name, handle in self._handles.items() if handle.namespaces.is_void}

    def put_values_of_key(self, key: Any, values: Mapping[str, Any]) -> None:
        """Set what declared states of a key hold; see `values_of_key`.

        Raises:
            StateError: There is no such state, or a value isn't of its type.
        """
        with self.current(key):
            for name, value in values.items():
                handle = self._handles.get(name)
                if handle is None or not handle.namespaces.is_void:
                    message = f"No state {name!r} is declared; there are {', '.join(map(repr, self._handles)) or 'none'}."
                    raise StateError(message)
                _fill(handle.state, value)

    def window_values_of_key(self, key: Any) -> dict[str, dict[Any, Any]]:
        """Return what the states with namespaces hold for a key, by name and namespace; see `values_of_key`.

        Args:
            key: As functions see it.
        """
        self._write_back_fronts()
        found: dict[str, dict[Any, Any]] = {}
        internal = self.key_codec.internal
        for name, handle in self._handles.items():
            if handle.namespaces.is_void:
                continue
            at = [space for one, space in self._visitor.keys_and_namespaces(handle) if internal(one) == internal(key)]
            with self.current(key):
                for namespace in map(handle.namespaces.external, at):
                    handle.set_current_namespace(namespace)
                    found.setdefault(name, {})[namespace] = _content(handle.state)
        return found

    def put_window_values_of_key(self, key: Any, values: Mapping[str, Mapping[Any, Any]]) -> None:
        """Set what declared states with namespaces hold for a key; see `window_values_of_key`.

        Raises:
            StateError: There is no such state, or a value isn't of its type.
        """
        with self.current(key):
            for name, by_namespace in values.items():
                handle = self._handle(name)
                for namespace, value in by_namespace.items():
                    handle.set_current_namespace(namespace)
                    _fill(handle.state, value)

    @contextmanager
    def current(self, key: Any) -> Iterator[None]:
        """Make a key, as functions see it, the current one for a while."""
        context = self.key_context
        before = context.active_key, context.active_key_group
        internal = context.key_codec.internal(key)
        context.set_current_key(internal, context.key_codec.key_group(internal, context.max_parallelism))
        try:
            yield
        finally:
            context.set_current_key(*before)

    @override
    def queryable_states(self) -> dict[str, QueryableStateInfo]:
        return dict(self._queryable)

    def _declared(self, descriptor: StateDescriptor, namespaces: NamespaceSerializer) -> InternalKvState:
        if descriptor.name in self._queues:
            raise _declared_as_both(descriptor.name)
        scope = None if namespaces.is_void else NamespaceScope(self.key_context, namespaces, descriptor.name)
        state, overlay = self._create_state(descriptor, namespaces, self.key_context if scope is None else scope)
        handle_class = InternalMergingState if isinstance(state, MergingState) else InternalKvState
        handle = handle_class(descriptor, namespaces, scope, state, overlay)
        self._handles[descriptor.name] = handle
        self._overlays[descriptor.name] = overlay
        return handle

    @override
    def get_priority_queue(self, schema: TimerSchema) -> KeyGroupedPriorityQueue:
        known = self._queues.get(schema.name)
        if known is None:
            if schema.name in self._handles:
                raise _declared_as_both(schema.name)
            known = self._queues[schema.name] = self._create_queue(schema)
            self._overlays[schema.name] = known
        elif known.schema != schema:
            message = f"Timers are declared twice: as {known.schema} and as {schema}."
            raise StateDeclarationError(message, hint="give one of the timer services another name")
        return known

    @override
    def get_keys(self, state_name: str, namespace: Any = None) -> Iterator[Any]:
        handle = self._handle(state_name)
        wanted = handle.namespaces.internal(namespace)
        return (key for key, found in self._visitor.keys_and_namespaces(handle) if found == wanted)

    @override
    def get_keys_and_namespaces(self, state_name: str) -> Iterator[tuple[Any, Any]]:
        handle = self._handle(state_name)
        external = handle.namespaces.external
        return ((key, external(namespace)) for key, namespace in self._visitor.keys_and_namespaces(handle))

    def _handle(self, state_name: str) -> InternalKvState:
        handle = self._handles.get(state_name)
        if handle is None:
            message = f"No state {state_name!r} was declared."
            raise StateError(message, hint="declare it first: get_or_create_keyed_state")
        return handle

    @override
    def apply_to_all_keys(self, descriptor: StateDescriptor, function: Callable[[Any, Any], object]) -> None:
        self._visitor.apply(self.get_or_create_keyed_state(descriptor), function)

    def _write_back_fronts(self) -> None:
        """Write to the stores what operators keep of finished epochs; see `kept_bytes`."""
        for front in self._fronts():
            front.write_back()

    def _fronts(self) -> list[EpochBuffer]:
        values = [overlay for overlay in self._overlays.values() if isinstance(overlay, OverlayValueState)]
        return [overlay.front for overlay in values if overlay.front is not None]

    def _drop_epochs(self) -> None:
        """Drop the overlays of the running epoch, and unset the current key."""
        for overlay in self._overlays.values():
            overlay.drop_epoch()
        self.key_context.clear()

    def _forget_declared(self) -> None:
        """Drop all declarations, and the running epoch."""
        self._drop_epochs()
        self._handles.clear()
        self._queryable.clear()
        self._queues.clear()
        self._overlays.clear()

    def _snapshot_filters(self) -> dict[str, EntryFilter]:
        """Return the filters of expired values for a snapshot taken now, by state name."""
        now = self.key_context.clock()
        filters = {name: snapshot_filter(handle.descriptor, now) for name, handle in self._handles.items()}
        return {name: keep for name, keep in filters.items() if keep is not None}


def _content(state: Any) -> Any:
    if isinstance(state, MapState):
        return dict(state.items())
    return state.get() if isinstance(state, ListState) else getattr(state, "stored", state).value()


def _fill(state: Any, value: Any) -> None:
    state.clear()
    if value is None:
        return
    if isinstance(state, MapState):
        state.put_all(value)
    else:
        getattr(state, "stored", state).update(value)


def declared_twice(known: StateDescriptor, descriptor: StateDescriptor) -> StateDeclarationError | None:
    """Return the error for a state that is declared again in another way; None if no difference is known.

    Args:
        known: Its first declaration.
        descriptor: The other one.
    """
    difference = known.difference(descriptor)
    if difference is None:
        return None
    message = f"State {known.name!r} is declared twice, with another {difference}: as {known!r} and as {descriptor!r}."
    return StateDeclarationError(message, hint="give one of them another name")


def _declared_as_both(name: str) -> StateDeclarationError:
    message = f"{name!r} is declared twice: as a state and as timers."
    return StateDeclarationError(message, hint="give the state another name")
