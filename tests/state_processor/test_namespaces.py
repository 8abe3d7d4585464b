"""State of windows and timers on its way through the state processor."""

from __future__ import annotations

from pystate.common.key_groups import key_group
from pystate.core.snapshot.reading.snapshot_reader import SnapshotReader
from pystate.state_processor import SavepointReader, SavepointWriter
from tests.fixtures import all_kinds, windows
from tests.state_processor.conftest import WORDS


def contents(reader):
    """Return state -> sorted (address, value) pairs."""
    names = [state.name for state in reader.keyed_states(windows.UID)]
    return {name: sorted(reader.keyed_entries(windows.UID, name), key=repr) for name in names}


def test_it_is_shown_by_namespace_and_written_under_other_key_groups(spark, tmp_path):
    operators = [windows.windows_operator(WORDS, "rocksdb")]
    path = all_kinds.write_savepoint(tmp_path / "savepoint", operators)
    frames = SavepointReader.read(spark, path)
    count = frames.read_keyed_state(windows.UID, "count").collect()
    expected = windows.expected(WORDS)[0]
    assert {(row.key, (row.namespace.start, row.namespace.end)): row.value for row in count} == {
        (key, window): value for (name, key, window), value in expected.items() if name == "count"
    }
    elements = frames.read_keyed_state(windows.UID, "per text", key="bee").collect()
    assert {row.namespace: row.value for row in elements} == {
        name: value for (state, key, name), value in expected.items() if (state, key) == ("per text", "bee")
    }
    timers = frames.read_keyed_state(windows.UID, windows.PROCESSING_TIMERS.name).collect()
    assert {(row.key, row.value) for row in timers} == {(key, number - 3) for number, key in enumerate(WORDS)}
    shown = {row.name: row for row in frames.keyed_states(windows.UID).collect()}
    assert (shown[windows.EVENT_TIMERS.name].kind, shown["count"].kind) == ("TIMER", "REDUCING")

    wider = SavepointWriter.from_existing_savepoint(spark, path).change_max_parallelism(128).write(str(tmp_path / "wider"))
    before, after = SnapshotReader(path), SnapshotReader(wider)
    assert contents(after) == contents(before)
    for state in after.keyed_states(windows.UID):
        for row in after.keyed_rows(windows.UID, state.name):
            assert row.key_group == key_group(row.key_bytes[0], row.key_bytes[1:], 128)
