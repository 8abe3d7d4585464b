"""Functions on a stream some of whose keys are None: state, timers, snapshots."""

from __future__ import annotations

import pytest

from pystate.common import Types
from pystate.datastream import KeyedProcessFunction, MapStateDescriptor, ValueStateDescriptor
from pystate.testing import KeyedOneInputOperatorTestHarness


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))
        self.last = runtime_context.get_map_state(MapStateDescriptor("last", Types.STRING(), Types.INT()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        self.last.put(None, value)
        ctx.timer_service().register_event_time_timer(100)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.count.value(), dict(self.last.items())


@pytest.mark.parametrize("state_backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize(
    ("key_type", "key"), [(None, "a"), (Types.STRING(), "a"), (Types.LONG(), 1), (Types.BOOLEAN(), False)], ids=str
)
def test_none_is_a_key_like_others(key_type, key, state_backend):
    def made():
        return KeyedOneInputOperatorTestHarness(
            Count(), lambda value: None if value % 2 else key, key_type, state_backend=state_backend
        )

    with made() as harness:
        harness.open()
        for value in range(5):
            harness.process_element(value, 1)
        snapshot = harness.snapshot(1)
    with made() as harness:
        harness.initialize_state(snapshot)
        harness.open()
        harness.process_element(7, 1)
        harness.process_watermark(100)
        found = harness.extract_output()
    assert sorted(found, key=repr) == sorted([(None, 3, {None: 7}), (key, 3, {None: 4})], key=repr)
