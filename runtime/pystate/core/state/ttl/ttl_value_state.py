"""Value state with a time to live, also the base of reducing and aggregating state."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from pystate.common.overrides import override
from pystate.core.api.state import ValueState
from pystate.core.state.keys.key_context import KeyContext
from pystate.core.state.kinds.value_states import OverlayValueState, ValueStore, create_value_state
from pystate.core.state.ttl.ttl_pairs_state import TtlPairsState
from pystate.core.state.ttl.ttl_serializer import TtlSerializer
from pystate.core.state.ttl.ttl_settings import TtlSettings


class TtlValueState(TtlPairsState[OverlayValueState], ValueState[Any]):
    """One value per key, as a pair (time, value) in a plain value state.

    Changing a value in place isn't an access: its time is that of the last `update`, or with `refresh_on_read` of `value`.
    """

    __slots__ = ("_read", "_write")

    def __init__(
        self, name: str, context: KeyContext, serializer: TtlSerializer, store: ValueStore, settings: TtlSettings
    ) -> None:
        super().__init__(name, context, serializer, store, create_value_state(name, context, serializer, store), settings)
        self._read = self._pairs.value
        self._write = self._pairs.update

    @override
    def value(self) -> Any:
        self._accesses += 1
        pair = self._read()
        if pair is None:
            return None
        time, value = pair
        now = self._clock()
        if time + self._millis <= now:
            self._write(None)
            return value if self._show_expired else None
        if self._refresh and time < now:
            self._write((now, value))
        return value

    @override
    def update(self, value: Any) -> None:
        self.update_checked(None if value is None else self._check_value(value))

    def update_checked(self, value: Any) -> None:
        """Set the current key's value, which must have been checked; None removes."""
        self._accesses += 1
        self._write(None if value is None else (self._clock(), value))

    @override
    def clear(self) -> None:
        self.update_checked(None)

    def checked(self, value: Any) -> Any:
        """Return a value in the stored form.

        Raises:
            StateError: It isn't of the type.
        """
        return self._check_value(value)

    def take(self) -> Any:
        """Remove the current key's value and return it; None if there is none, or it has expired."""
        self._accesses += 1
        pair = self._pairs.take()
        return None if pair is None or pair[0] + self._millis <= self._clock() else pair[1]

    def has_value(self) -> bool:
        """Return whether the current key has a visible value; doesn't count as an access."""
        pair = self._read()
        return pair is not None and (self._show_expired or bool(pair[0] + self._millis > self._clock()))

    @property
    def held(self) -> Mapping[Hashable, Any]:
        """The values in the overlay, by key."""
        return self._pairs.held
