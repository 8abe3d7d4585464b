"""Access to the accumulators of a reducing or aggregating state by address, for bulk operations.

A batch of elements, or the timers of one time, have many keys and few namespaces. Setting the current key and namespace for
each, and reading the state repeatedly, would take longer than the work itself: so addresses are passed explicitly. Reads and
writes are equivalent to the state's `get`, `add` and `clear`, including their checks.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from pystate.core.state.kinds.derived_states import AccumulatingState
from pystate.core.state.kinds.internal_state import InternalKvState
from pystate.core.state.kinds.overlay import EpochBuffer
from pystate.core.state.kinds.value_states import ImmutableValueState, OverlayValueState


class Accumulators:
    """The accumulators of one state.

    Args:
        state: The state.
        values: Holds its accumulators.

    Attributes:
        combine: See `AccumulatingState.combine`.
        merge: See `AccumulatingState.merged`.
        result: See `AccumulatingState.result`.
        checked: Returns an accumulator in the stored form, or raises StateError.
    """

    __slots__ = ("_held", "_load", "_values", "checked", "combine", "merge", "result")

    def __init__(self, state: AccumulatingState, values: OverlayValueState) -> None:
        self.combine = state.combine
        self.merge = state.merged
        self.result = state.result
        self.checked = values.checked
        self._values = values
        self._load = values.load
        self._held: dict[Hashable, Any] = values.overlay  # one dict for good; None if one was removed

    @staticmethod
    def of(handle: InternalKvState) -> Accumulators | None:
        """Return the accumulators of a state; None if it has none, or if they expire."""
        state, values = handle.state, handle.overlay
        if isinstance(state, AccumulatingState) and isinstance(values, OverlayValueState):
            return Accumulators(state, values)
        return None

    def use_buffer(self, front: EpochBuffer) -> None:
        """Register an operator's buffer, above the state, for accumulators of the running epoch."""
        self._values.front = front

    def hold_all(self, addresses: Sequence[Hashable], key_groups: Sequence[int], accumulators: Iterable[Any]) -> None:
        """Set the accumulators of some addresses, as returned by `combine`."""
        self._values.hold_all(addresses, key_groups, accumulators)

    @property
    def immutable(self) -> bool:
        """Whether accumulators are immutable."""
        return isinstance(self._values, ImmutableValueState)

    def store_all(self, addresses: Sequence[Hashable], key_groups: Sequence[int], accumulators: Iterable[Any]) -> None:
        """Store the accumulators of some addresses as of finished epochs."""
        self._values.store_all(addresses, key_groups, accumulators)

    def read(self, address: Hashable, key_group: int) -> Any:
        """Return the accumulator of an address; None if there is none."""
        accumulator = self._held.get(address)
        if accumulator is None and address not in self._held:
            return self._load(address, key_group)
        return accumulator

    def remove(self, address: Hashable, key_group: int) -> None:
        """Remove the accumulator of an address."""
        self._values.hold(address, key_group, None)

    def remove_new(self, address: Hashable) -> None:
        """Remove the accumulator of an address that isn't in any finished epoch."""
        self._values.let_go(address)
