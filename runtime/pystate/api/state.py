"""Keyed state as user code sees it: the state interfaces and the descriptors that declare them, with PyFlink's names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import Generic, TypeVar

from pystate.common.errors import StateError
from pystate.common.type_info import TypeInformation

T = TypeVar("T")


class StateKind(str, Enum):
    """The kinds of keyed state; the values stand in snapshots."""

    VALUE = "VALUE"


class State(ABC):
    """A keyed state: each access concerns the current key only.

    What a state hands out or takes may be changed in place by user code. Within the running epoch such a change counts as an
    update, with or without a call of `update()`, on every backend. Once the epoch has ended, objects kept from it are cut
    off: changing them changes nothing.
    """

    __slots__ = ()

    @abstractmethod
    def clear(self) -> None:
        """Remove the current key's value."""


class ValueState(State, Generic[T]):
    """One value per key."""

    __slots__ = ()

    @abstractmethod
    def value(self) -> T | None:
        """Return the current key's value; None where there is none."""

    @abstractmethod
    def update(self, value: T | None) -> None:
        """Set the current key's value; None removes it.

        Raises:
            StateError: The value doesn't have the state's type. Basic types are checked at once; what a list, map or row
                holds is checked when the epoch ends.
        """


class StateDescriptor(ABC):
    """Declares a state: its name, unique within the operator, and its type.

    Args:
        name: A non-empty string; it identifies the state in snapshots.
        type_info: The type of the values. None means untyped: values are kept as what they are, as far as msgpack with our
            extensions says it exactly (None, bool, int, float, str, bytes, list, dict, tuple, Row, date, time, datetime,
            Decimal).
    """

    def __init__(self, name: str, type_info: TypeInformation | None) -> None:
        if not isinstance(name, str) or not name:
            message = f"The name of a state must be a non-empty string, not {name!r}."
            raise StateError(message)
        if type_info is not None and not isinstance(type_info, TypeInformation):
            message = f"The type of state {name!r} must be a TypeInformation, not {type_info!r}."
            raise StateError(message, hint="use the factory, for example Types.LONG()")
        self.name = name
        self.type_info = type_info

    @property
    @abstractmethod
    def kind(self) -> StateKind:
        """Which kind of state is declared."""

    def get_name(self) -> str:
        """Return the name."""
        return self.name

    def __eq__(self, other: object) -> bool:
        """Compare by kind, name and type."""
        if not isinstance(other, StateDescriptor):
            return NotImplemented
        return (self.kind, self.name, self.type_info) == (other.kind, other.name, other.type_info)

    def __hash__(self) -> int:
        """Hash kind, name and type."""
        return hash((self.kind, self.name, self.type_info))

    def __repr__(self) -> str:
        """Return the call that makes the descriptor."""
        return f"{type(self).__name__}({self.name!r}, {self.type_info!r})"


class ValueStateDescriptor(StateDescriptor):
    """Declares a `ValueState`.

    Args:
        name: See `StateDescriptor`.
        value_type_info: The type of the value; None for untyped.
    """

    def __init__(self, name: str, value_type_info: TypeInformation | None = None) -> None:
        super().__init__(name, value_type_info)

    @property
    def kind(self) -> StateKind:
        """Return `StateKind.VALUE`."""
        return StateKind.VALUE
