"""How the keyed state of an operator is cut for Spark's tasks."""

from __future__ import annotations

import pytest

from pystate.core.snapshot.reading.snapshot_reader import SnapshotReader
from pystate.state_processor import splits
from pystate.state_processor.splits import SPLIT_BYTES, keyed_splits


def test_there_are_splits_for_all_tasks_that_can_run_and_none_is_smaller_than_it_pays(
    savepoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = SnapshotReader(savepoint)
    operator = reader.operator("typed")
    whole = keyed_splits(reader, operator, None, None, SPLIT_BYTES, 8)
    assert len(whole) == operator.parallelism
    monkeypatch.setattr(splits, "_LEAST_BYTES", 1)
    cut = keyed_splits(reader, operator, None, None, SPLIT_BYTES, 8)
    assert len(cut) > len(whole)
    groups = [group for split in cut for group in split.key_groups]
    assert sorted(groups) == sorted(group for split in whole for group in split.key_groups)
    assert len(set(groups)) == len(groups)
