"""Visits all keys of a state, during or between records."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

from pystate.core.state.keys.key_context import InternalKeyContext

if TYPE_CHECKING:
    from pystate.core.state.kinds.internal_state import InternalKvState

VISITS_PER_LOOK = 1_000
"""After so many keys of `apply` the size of the epoch is looked at."""


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
