"""A job's function whose state expires, under the public harness and its clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pystate.common import Types
from pystate.common.time import Time
from pystate.datastream import (
    KeyedProcessFunction,
    MapStateDescriptor,
    RuntimeContext,
    StateTtlConfig,
    ValueStateDescriptor,
)
from pystate.testing import KeyedOneInputOperatorTestHarness


class Visits(KeyedProcessFunction):
    """Counts the visits of a session, and its pages; a session ends when nothing happens for 30 s."""

    def open(self, runtime_context: RuntimeContext) -> None:
        config = StateTtlConfig.new_builder(Time.seconds(30)).cleanup_full_snapshot().build()
        count = ValueStateDescriptor("count", Types.LONG())
        pages = MapStateDescriptor("pages", Types.STRING(), Types.LONG())
        for descriptor in (count, pages):
            descriptor.enable_time_to_live(config)
        self.count = runtime_context.get_state(count)
        self.pages = runtime_context.get_map_state(pages)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.pages[value[1]] = count
        yield f"{value[0]} {count} {','.join(sorted(self.pages))}"


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_state_expires_by_the_clock_of_the_harness(backend: str) -> None:
    def new_harness() -> KeyedOneInputOperatorTestHarness:
        return KeyedOneInputOperatorTestHarness(
            Visits(), lambda value: value[0], key_type=Types.STRING(), state_backend=backend
        )

    with new_harness() as harness:
        harness.open()
        harness.set_processing_time(100_000)
        harness.process_elements([("ann", "a"), ("ann", "b"), ("bob", "a")])
        harness.set_processing_time(129_999)
        harness.process_element(("ann", "c"))
        harness.set_processing_time(130_000)
        harness.process_elements([("ann", "d"), ("bob", "d")])
        assert harness.extract_output() == ["ann 1 a", "ann 2 a,b", "bob 1 a", "ann 3 a,b,c", "ann 4 c,d", "bob 1 d"]
        harness.set_processing_time(150_000)
        harness.process_element(("eve", "x"))
        harness.set_processing_time(160_000)
        snapshot = harness.snapshot(1)
    with new_harness() as harness:
        harness.initialize_state(snapshot)
        harness.set_processing_time(160_000)
        harness.open()
        assert harness.num_keyed_state_entries() == 2  # what eve left: the others have expired
        harness.process_elements([("ann", "z"), ("eve", "y")])
        assert harness.extract_output() == ["ann 1 z", "eve 2 x,y"]
