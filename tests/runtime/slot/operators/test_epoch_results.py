"""Results that wait for the end of an epoch: which ones, in which order, with which times."""

from __future__ import annotations

import pytest

from pystate.common import Types
from pystate.common.key_groups import KeyGroupRange
from pystate.core.state.keys.key_context import InternalKeyContext
from pystate.core.state.keys.keys import KeyCodec
from pystate.runtime.slot.event_time.chain_time import ChainTime
from pystate.runtime.slot.operators.epoch_results import EpochResults


class Emitted:
    """Takes results, and notes the time that each has."""

    def __init__(self) -> None:
        self.time = ChainTime(lambda: 0)
        self.context = InternalKeyContext(KeyCodec(Types.STRING()), KeyGroupRange(0, 7), 8)
        self.found: list[tuple[object, int | None]] = []
        self.results = EpochResults(self.context, self.time, self.emit)

    def emit(self, result: object) -> None:
        if result == "wrong":
            raise ValueError(result)
        self.found.append((result, self.time.timestamp))

    def note(self, key: str, result: object, timestamp: int | None = None) -> None:
        self.context.set_current_key(key, 1)
        self.time.timestamp = timestamp
        self.results.note(result)
        self.time.timestamp = None


def test_the_last_result_of_each_key_comes_with_its_time_in_the_order_of_the_keys() -> None:
    emitted = Emitted()
    emitted.note("a", 1, 100)
    emitted.note("b", 2, 90)
    emitted.note("a", 3, 80)
    assert emitted.found == []
    emitted.results.drain()
    assert emitted.found == [(3, 80), (2, 90)]
    assert emitted.time.timestamp is None
    emitted.results.drain()
    assert len(emitted.found) == 2


def test_results_of_a_batch_have_no_time() -> None:
    emitted = Emitted()
    emitted.note("a", 1, 100)
    emitted.results.note_all(["b", "a"], [2, 3])
    emitted.results.drain()
    assert emitted.found == [(3, None), (2, None)]


def test_after_an_error_nothing_is_left_for_the_next_epoch() -> None:
    emitted = Emitted()
    emitted.note("a", "wrong", 100)
    with pytest.raises(ValueError, match="wrong"):
        emitted.results.drain()
    assert emitted.time.timestamp is None
    emitted.results.roll_back_epoch()
    emitted.results.drain()
    assert emitted.found == []
