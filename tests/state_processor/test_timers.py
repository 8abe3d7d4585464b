"""Timers on their way through the state processor: out of a savepoint, and into a new one."""

from __future__ import annotations

import pytest

from pystate.common import Types
from pystate.common.errors import SnapshotError, StateError
from pystate.core.api.functions import KeyedProcessFunction
from pystate.core.api.state import ValueStateDescriptor
from pystate.core.snapshot.reading.snapshot_reader import SnapshotReader
from pystate.runtime.slot.snapshots.restored_operator import RestoredOperator
from pystate.state_processor import (
    KeyedStateBootstrapFunction,
    KeyedStateReaderFunction,
    OperatorTransformation,
    SavepointReader,
    SavepointWriter,
    keyed_bootstrap,
)
from pystate.testing import KeyedOneInputOperatorTestHarness, OperatorSnapshot
from tests.fixtures import all_kinds, windows
from tests.state_processor.conftest import WORDS

COUNT = ValueStateDescriptor("count", Types.LONG())
ROWS = [(key, number) for number, key in enumerate("abcabca")]


class Fill(KeyedStateBootstrapFunction):
    """Counts, and registers a timer by event time per element, and one by the clock per key, the last element's."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(COUNT)

    def process_element(self, value, ctx):
        before = self.count.value() or 0
        timers = ctx.timer_service()
        timers.register_event_time_timer(value.number * 10)
        if before:
            timers.delete_processing_time_timer(before)
        timers.register_processing_time_timer(before + 1)
        self.count.update(before + 1)


def ask(ctx):
    ctx.timer_service().register_event_time_timer(1)


class Undeclared(KeyedStateBootstrapFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(COUNT)

    def process_element(self, value, ctx):
        ask(ctx)


class Fired(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(COUNT)

    def process_element(self, value, ctx):
        raise NotImplementedError

    def on_timer(self, timestamp, ctx):
        yield ctx.time_domain().name, timestamp, ctx.get_current_key(), self.count.value()


class Timers(KeyedStateReaderFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(COUNT)

    def read_key(self, key, ctx):
        yield key, ctx.registered_event_time_timers(), ctx.registered_processing_time_timers()


def written(spark, path, function, parallelism=2):
    rows = spark.createDataFrame(ROWS, "key string, number long")
    load = OperatorTransformation.bootstrap_with(rows).key_by("key").transform(function)
    writer = SavepointWriter.new_savepoint(spark, max_parallelism=8)
    return writer.with_operator("alarm", load, parallelism=parallelism).write(str(path))


@pytest.mark.parametrize("gathered", [1, keyed_bootstrap.GATHERED_ELEMENTS])
def test_bootstrapped_timers_are_read_and_fire(spark, tmp_path, monkeypatch, gathered):
    monkeypatch.setattr(keyed_bootstrap.KeyedBootstrap.__init__, "__defaults__", (gathered,))
    path = written(spark, tmp_path / "savepoint", Fill())
    event = {key: [number * 10 for one, number in ROWS if one == key] for key in "abc"}

    savepoint = SavepointReader.read(spark, path)
    found = savepoint.read_timers("alarm").collect()
    assert sorted((row.domain, row.timestamp, row.key) for row in found) == sorted(
        [("EVENT_TIME", time, key) for key, times in event.items() for time in times]
        + [("PROCESSING_TIME", len(times), key) for key, times in event.items()]
    )
    assert {row.service for row in found} == {"user-timers"}
    assert {row.timestamp for row in savepoint.read_timers("alarm", keys=["b"]).collect()} == {10, 40, 2}

    columns = Types.TUPLE([Types.STRING(), Types.LIST(Types.LONG()), Types.LIST(Types.LONG())])
    by_key = savepoint.read_keyed_state("alarm", Timers(), output_type=columns).collect()
    assert {tuple(map(tuple, row[1:])): row[0] for row in by_key} == {
        (tuple(times), (len(times),)): key for key, times in event.items()
    }

    fired = []
    for subtask in range(2):
        harness = KeyedOneInputOperatorTestHarness(
            Fired(), lambda value: value, Types.STRING(), parallelism=2, subtask_index=subtask, max_parallelism=8
        )
        reader = SnapshotReader(path)
        keyed = reader.operator("alarm").subtasks[subtask].keyed_state
        restored = RestoredOperator(reader.location.uri, keyed)
        harness.initialize_state(OperatorSnapshot(1, subtask, 2, 8, None, restored))
        with harness:
            harness.open()
            harness.process_watermark(1000)
            harness.set_processing_time(1000)
            fired += harness.extract_output()
    assert sorted(fired) == sorted(
        [("EVENT_TIME", time, key, len(times)) for key, times in event.items() for time in times]
        + [("PROCESSING_TIME", len(times), key, len(times)) for key, times in event.items()]
    )


def test_a_function_without_timers_writes_no_state_for_them(spark, tmp_path):
    path = all_kinds.write_savepoint(tmp_path / "plain", [windows.windows_operator(WORDS, "hashmap")])
    assert SavepointReader.read(spark, path).read_timers(windows.UID).count() == 4 * len(WORDS)
    with pytest.raises(StateError, match="asks for timers in code outside of its class"):
        written(spark, tmp_path / "undeclared", Undeclared())

    class Counted(KeyedStateBootstrapFunction):
        def open(self, runtime_context):
            self.count = runtime_context.get_state(COUNT)

        def process_element(self, value, ctx):
            self.count.update(value.number)

    plain = written(spark, tmp_path / "counted", Counted())
    assert [state.name for state in SnapshotReader(plain).keyed_states("alarm")] == ["count"]
    with pytest.raises(SnapshotError, match="timers"):
        SavepointReader.read(spark, plain).read_timers("alarm")
