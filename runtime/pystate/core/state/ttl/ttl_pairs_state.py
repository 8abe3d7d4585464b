"""What value and map state with a time to live have in common: pairs (time, value) in a plain state."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Any, Generic, TypeVar

from pystate.common.overrides import override
from pystate.core.state.keys.key_context import KeyContext
from pystate.core.state.kinds.overlay import OverlayState, value_check
from pystate.core.state.ttl.ttl_serializer import TtlSerializer
from pystate.core.state.ttl.ttl_settings import TtlSettings, TtlState

PairsT = TypeVar("PairsT", bound=OverlayState)


class TtlPairsState(OverlayState, TtlState, Generic[PairsT]):
    """A state over the pairs of a plain one, which has the changes of the running epoch.

    Args:
        name: The state's name.
        context: The context of the current address.
        serializer: The serializer of the pairs.
        store: The flushed pairs.
        pairs: The plain state.
        settings: How long values live, and what counts as an access.
    """

    __slots__ = ("_accesses", "_check_value", "_clock", "_millis", "_pairs", "_refresh", "_show_expired", "_writes")

    def __init__(
        self,
        name: str,
        context: KeyContext,
        serializer: TtlSerializer,
        store: Any,
        pairs: PairsT,
        settings: TtlSettings,
    ) -> None:
        super().__init__(name, context, serializer, store)
        self._pairs = pairs
        self._check_value = value_check(name, serializer.values)
        self._millis = settings.millis
        self._refresh = settings.refresh_on_read
        self._show_expired = settings.show_expired
        self._clock = settings.clock
        self._accesses = self._writes = 0

    @override
    def holds(self, key: Hashable) -> bool:
        return self._pairs.holds(key)

    @override
    def settle(self, key: Hashable) -> None:
        self._pairs.settle(key)

    @override
    def held_bytes(self) -> int:
        return self._pairs.held_bytes()

    @override
    def touched_keys(self) -> list[tuple[Hashable, int]]:
        return self._pairs.touched_keys()

    @override
    def prepare_flush(self) -> Any:
        changes = self._pairs.prepare_flush()
        self._writes += self._count(changes)
        return changes

    def _count(self, changes: Collection[Any]) -> int:
        """Return how many pairs are written."""
        return len(changes)

    @override
    def apply_flush(self, changes: Any) -> None:
        self._pairs.apply_flush(changes)

    @override
    def drop_epoch(self) -> None:
        self._pairs.drop_epoch()
