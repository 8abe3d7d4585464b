"""Keyed state with namespaces as operators use it (Flink's InternalKvState): user code doesn't see namespaces."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any

from pystate.common.errors import StateError
from pystate.core.api.state import State, StateDescriptor
from pystate.core.state.keys.key_context import NO_KEY, InternalKeyContext
from pystate.core.state.keys.namespaces import NamespaceSerializer

if TYPE_CHECKING:
    from pystate.common.key_groups import KeyGroupRange
    from pystate.core.state.kinds.derived_states import AccumulatingState
    from pystate.core.state.kinds.list_states import OverlayListState
    from pystate.core.state.kinds.overlay import OverlayState


class _NoNamespace:
    __slots__ = ()

    def __repr__(self) -> str:
        return "no current namespace"


_NO_NAMESPACE = _NoNamespace()


class NamespaceScope:
    """The current address of a state with namespaces: the current key, and the state's current namespace.

    Args:
        context: The context of the current key.
        namespaces: The serializer of the namespaces.
        name: The state's name, for errors.

    Attributes:
        clock: See `KeyContext`.
        key_group_range: See `KeyContext`.
        namespace: Internal form of the current namespace.
    """

    __slots__ = ("_keys", "_name", "_namespaces", "clock", "key_group_range", "namespace")

    def __init__(self, context: InternalKeyContext, namespaces: NamespaceSerializer, name: str) -> None:
        self._keys = context
        self._namespaces = namespaces
        self._name = name
        self.clock: Callable[[], int] = context.clock
        self.key_group_range: KeyGroupRange = context.key_group_range
        self.namespace: Hashable = _NO_NAMESPACE

    @property
    def active_key(self) -> Hashable:
        """The current address; `NO_KEY` outside of a record.

        Raises:
            StateError: No namespace was set yet.
        """
        key, namespace = self._keys.active_key, self.namespace
        if key is NO_KEY:
            return NO_KEY
        if namespace is _NO_NAMESPACE:
            message = f"State {self._name!r} was used without a namespace."
            raise StateError(message, hint="call set_current_namespace before the state is used")
        return key, namespace

    @active_key.setter
    def active_key(self, address: Any) -> None:
        if address is NO_KEY:
            self._keys.active_key = NO_KEY
        else:
            self._keys.active_key, self.namespace = address

    @property
    def active_key_group(self) -> int:
        """The key group of the current key."""
        return self._keys.active_key_group

    @active_key_group.setter
    def active_key_group(self, key_group: int) -> None:
        self._keys.active_key_group = key_group

    def no_key_error(self) -> StateError:
        """Return the error for an access outside of a record."""
        return self._keys.no_key_error()

    def shown(self, address: Any) -> str:
        """Return an address as readable text."""
        key, namespace = address
        return f"{self._keys.shown(key)} in namespace {self._namespaces.external(namespace)!r}"


class InternalKvState:
    """A declared state with its current namespace.

    Args:
        descriptor: The declaration.
        namespaces: The serializer of its namespaces.
        scope: Its current namespace; None if there is only the void one.
        state: The state for user code, scoped to current key and namespace.
        overlay: Its running epoch.

    Attributes:
        descriptor: As given.
        namespaces: As given.
        state: As given.
        overlay: As given.
    """

    __slots__ = ("_internal", "_scope", "descriptor", "namespaces", "overlay", "state")

    def __init__(
        self,
        descriptor: StateDescriptor,
        namespaces: NamespaceSerializer,
        scope: NamespaceScope | None,
        state: State,
        overlay: OverlayState,
    ) -> None:
        self.descriptor = descriptor
        self.namespaces = namespaces
        self.state: Any = state
        self.overlay = overlay
        self._scope = scope
        self._internal = namespaces.internal

    def set_current_namespace(self, namespace: Any) -> None:
        """Set the namespace that the state is scoped to until the next call, independent of the key.

        Raises:
            StateError: It is of another type than the state's namespaces.
        """
        internal = self._internal(namespace)
        if self._scope is not None:
            self._scope.namespace = internal

    def split(self, address: Any) -> tuple[Hashable, Hashable]:
        """Return the internal key and the internal namespace of an address."""
        key, namespace = (address, None) if self._scope is None else address
        return key, namespace

    def has_value(self, address: Any) -> bool:
        """Return whether an address, whose key is the current one, has a value."""
        scope = self._scope
        if scope is None:
            return self.overlay.has_value()
        before, scope.namespace = scope.namespace, address[1]
        try:
            return self.overlay.has_value()
        finally:
            scope.namespace = before


class InternalMergingState(InternalKvState):
    """A state whose namespaces can be merged (Flink's InternalMergingState): list, reducing and aggregating state."""

    __slots__ = ()

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Merge the current key's content of some namespaces into another one, after its content, and clear them.

        With a time to live, this counts as an access to merged values; elements of a list keep their times. The current
        namespace is unchanged.

        Args:
            target: The target namespace.
            sources: The source namespaces, in order; the target among them is ignored.

        Raises:
            StateError: There is no current key, a namespace is of another type, or user code returned None.
        """
        scope, internal = self._scope, self._internal
        if scope is None:
            return
        to = internal(target)
        others = [source for source in dict.fromkeys(map(internal, sources)) if source != to]
        merging: AccumulatingState | OverlayListState = self.state
        before = scope.namespace
        try:
            taken = []
            for scope.namespace in others:
                content = merging.take()
                if content is not None:
                    taken.append(content)
            scope.namespace = to
            if taken:
                merging.merge(taken)
        finally:
            scope.namespace = before
