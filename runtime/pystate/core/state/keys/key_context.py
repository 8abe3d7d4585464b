"""The address that an access to state refers to (Flink's InternalKeyContext): the current key, or a key and a namespace."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Protocol

from pystate.common.errors import StateError
from pystate.common.key_groups import KeyGroupRange, check_max_parallelism
from pystate.common.time import current_time_ms
from pystate.core.state.keys.keys import KeyCodec


class _NoKey:
    __slots__ = ()

    def __repr__(self) -> str:
        return "no current key"


NO_KEY = _NoKey()
"""The value of `active_key` outside of a record."""


class KeyContext(Protocol):
    """The context with the current address of a state.

    An `InternalKeyContext` if that is the current key; else a `NamespaceScope`.

    Attributes:
        active_key: The current address; `NO_KEY` outside of a record.
        active_key_group: The key group of its key.
        key_group_range: The key groups of the subtask.
        clock: Returns the time by which values expire, ms since 1970.
    """

    active_key: Hashable
    active_key_group: int
    key_group_range: KeyGroupRange
    clock: Callable[[], int]

    def no_key_error(self) -> StateError:
        """Return the error for an access outside of a record."""

    def shown(self, address: Any) -> str:
        """Return an address as readable text."""


class InternalKeyContext:
    """The current key of a subtask, for all of its states and timers.

    The record processor sets the key before each record, and a timer service sets that of a timer before it fires:
    `set_current_key(timer.key, timer.key_group)`. A loop over records may set the two attributes directly, since a call is
    as expensive as reading a state.

    Args:
        key_codec: The codec of the keys.
        key_group_range: The key groups of this subtask.
        max_parallelism: The total number of key groups.
        clock: Returns the time by which values expire, ms since 1970, 0 or more.

    Attributes:
        active_key: Internal form of the current key; `NO_KEY` if there is none. States read it at each access.
        active_key_group: Key group of the current key.
        key_codec: As given.
        key_group_range: As given.
        max_parallelism: As given.
        clock: As given.

    Raises:
        ValueError: The key groups are invalid.
    """

    __slots__ = ("active_key", "active_key_group", "clock", "key_codec", "key_group_range", "max_parallelism")

    def __init__(
        self,
        key_codec: KeyCodec,
        key_group_range: KeyGroupRange,
        max_parallelism: int,
        clock: Callable[[], int] = current_time_ms,
    ) -> None:
        check_max_parallelism(max_parallelism)
        if key_group_range.end >= max_parallelism:
            message = f"There are no key groups {key_group_range} at a max parallelism of {max_parallelism}."
            raise ValueError(message)
        self.key_codec = key_codec
        self.key_group_range = key_group_range
        self.max_parallelism = max_parallelism
        self.clock = clock
        self.active_key: Hashable = NO_KEY
        self.active_key_group = -1

    def set_current_key(self, internal_key: Hashable, key_group: int) -> None:
        """Set the key that states are scoped to until the next call, or the end of the epoch.

        Args:
            internal_key: As `key_codec.internal` gives it.
            key_group: Its key group. Trusted here; the first access of a key in an epoch checks that it is this subtask's.
        """
        self.active_key = internal_key
        self.active_key_group = key_group

    def clear(self) -> None:
        """Unset the current key."""
        self.active_key = NO_KEY
        self.active_key_group = -1

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

    def shown(self, address: Any) -> str:
        """Return an internal key as readable text."""
        return f"key {self.key_codec.external(address)!r}"
