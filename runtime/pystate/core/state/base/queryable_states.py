"""The queryable states of a backend, and views of flushed state at one moment, which readers on other threads ask.

Unlike a snapshot, which is read once completely, a view is read by single keys many times, and few views exist at a time.
See docs/design/014-queryable-state.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass

from pystate.common.errors import StateDeclarationError
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.core.api.state import StateDescriptor
from pystate.core.api.state_ttl import StateTtlConfig
from pystate.core.state.base.state_schema import StateSchema
from pystate.core.state.keys.namespaces import NamespaceSerializer


@dataclass(frozen=True)
class QueryableStateInfo:
    """A queryable state.

    Attributes:
        state_name: Its name in the operator.
        schema: The schema of its bytes.
        ttl_millis: The time without an access after which a value is hidden; None for never.
    """

    state_name: str
    schema: StateSchema
    ttl_millis: int | None = None

    @staticmethod
    def of(
        descriptor: StateDescriptor, namespaces: NamespaceSerializer, key_type: TypeInformation | None
    ) -> QueryableStateInfo:
        """Return the queryable state declared by a descriptor.

        Raises:
            StateDeclarationError: Its values, or the keys, are pickled: reading them would execute code.
        """
        types = (key_type, descriptor.type_info, getattr(descriptor, "key_type_info", None))
        if any(one is not None and _is_pickled(one) for one in types):
            message = f"State {descriptor.name!r} can't be queryable: it holds pickled values, which don't travel."
            raise StateDeclarationError(message, hint="declare another type, or don't call set_queryable")
        schema, config = StateSchema.of(descriptor, namespaces), descriptor.ttl_config
        hides = config is not None and config.get_state_visibility() is StateTtlConfig.StateVisibility.NeverReturnExpired
        millis = config.get_ttl().to_milliseconds() if config is not None and hides else None
        return QueryableStateInfo(descriptor.name, schema, millis)


def _is_pickled(type_info: TypeInformation) -> bool:
    return type_info.kind is TypeKind.PICKLED_BYTE_ARRAY or any(map(_is_pickled, type_info.elements))


ENTRY_BYTES = 16
"""The maximum overhead of an entry or element in a message."""


@dataclass(frozen=True)
class PageBound:
    """The bound of one page of a map or a list.

    Attributes:
        limit: The maximum number of entries or elements.
        room: The maximum size in bytes, including `ENTRY_BYTES` each.
    """

    limit: int
    room: int


class StateView(ABC):
    """One state in a view. Addresses are those of `addresses`; values, elements and map values are bytes as in snapshots.

    Methods that don't apply to the state's kind must not be called.
    """

    @abstractmethod
    def value(self, address: Hashable, key_group: int) -> bytes | None:
        """Return the value or accumulator of an address; None if there is none."""

    @abstractmethod
    def elements(self, address: Hashable, key_group: int) -> list[bytes]:
        """Return the elements of a list; none if there is no list."""

    @abstractmethod
    def entries(
        self, address: Hashable, key_group: int, prefix: bytes, after: bytes | None, bound: PageBound
    ) -> tuple[list[tuple[bytes, bytes]], bytes | None]:
        """Return (bytes of the map key, bytes of the value) of a map's entries, in an order of the view.

        Args:
            address: The address of the map.
            key_group: The key group of the key.
            prefix: The prefix of the bytes of the keys to return.
            after: The end returned by an earlier call; None for the beginning.
            bound: The bound. The first entry is returned regardless of its size.

        Returns:
            The entries, and their end; None for the latter if there are no more.
        """


class CommittedView(ABC):
    """Some states of a backend at the creation of the view, which is created and closed by the backend's owner."""

    @abstractmethod
    def state(self, name: str) -> StateView | None:
        """Return a state, from any thread until the view is closed; None if it was not declared at that time."""

    @abstractmethod
    def close(self) -> None:
        """Free the view. It must not be read any more."""
