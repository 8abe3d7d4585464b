"""What Spark's tasks read of a state whose parts have several schemas; the tasks are called without Spark."""

from __future__ import annotations

import pytest

from pystate.state_processor.existing_state import _Rehash
from pystate.state_processor.savepoint_reader import _StateTask
from pystate.state_processor.splits import SplitSource, keyed_splits
from tests.core.snapshot.test_parts_of_states import CHANGES, UID, Operator, described, half_declared


@pytest.mark.parametrize("kind", [("hashmap", False), ("rocksdb", True)], ids=["canonical", "native"])
@pytest.mark.parametrize("merged", [False, True])
def test_rows_of_all_parts_have_one_type_and_timestamps_where_a_part_has_them(tmp_path, kind, merged):
    old, new, _ = CHANGES["widened, with a time to live"]
    handles, expected = half_declared(tmp_path, kind, old, new)
    if merged:
        handles = Operator(tmp_path, kind[0], 1, handles).snapshot("merged", native=kind[1])
    reader = described(tmp_path, handles)
    operator, state = reader.operator(UID), reader.keyed_state(UID, "state")
    source = SplitSource.of(reader, operator)
    task = _StateTask(source, "state", state.parts, state.key_type, (None, None, None), None, False, False, "here")
    rows = [
        row
        for split in keyed_splits(reader, operator, ["state"], None, 100)
        for batch in task(split)
        for row in batch.to_pylist()
    ]
    assert {row["key"]: row["value"] for row in rows} == expected
    stamped = [row["ttl_timestamp"] is not None for row in rows]
    assert any(stamped) and not all(stamped), "only those that the first subtask had declared anew"


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_each_part_stays_what_it_is_under_other_key_groups(tmp_path, change):
    old, new, _ = change
    handles, _ = half_declared(tmp_path, ("hashmap", False), old, new)
    reader = described(tmp_path, handles)
    operator, state = reader.operator(UID), reader.keyed_state(UID, "state")
    rehash = _Rehash(SplitSource.of(reader, operator), list(state.parts), 64)
    splits = keyed_splits(reader, operator, None, None, 1 << 20)
    numbers = [{number for batch in rehash(split) for number in batch.column(1).to_pylist()} for split in splits]
    assert numbers == [{0}, {1}]
