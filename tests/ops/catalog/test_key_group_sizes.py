"""What key groups and keys take of a snapshot, told apart, and never more together than the whole."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from pystate.core.snapshot.reading.snapshot_reader import SnapshotReader
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.ops.catalog.key_group_sizes import heaviest_keys, key_group_sizes
from pystate.ops.catalog.snapshot_summary import read_snapshot

SNAPSHOT = Path(__file__).parents[2] / "fixtures" / "snapshots" / "v0.1.0" / "canonical-hashmap"


def sizes():
    location = SnapshotLocation(f"file:{SNAPSHOT}")
    metadata = read_snapshot(location)
    for operator in metadata.operators:
        found = key_group_sizes(location, metadata, operator.uid)
        for state, groups in found.states.items():
            yield from ((operator.uid, state, group, size) for group, size in groups.items())


@pytest.mark.parametrize(("uid", "state", "group", "size"), list(sizes()))
def test_the_keys_of_a_key_group_take_no_more_than_the_key_group(uid, state, group, size):
    keys, count = heaviest_keys(SnapshotReader(f"file:{SNAPSHOT}"), uid, state, group, 1000)
    assert len(keys) == count
    assert 0 < sum(key.size for key in keys) <= size
    assert [key.size for key in keys] == sorted((key.size for key in keys), reverse=True)


class Rows:
    """A snapshot with a key that has a list of 1,000 elements, and one with an element in each of two windows."""

    def keyed_rows(self, _uid, _state, *, key_group):
        elements = [(b"long key", b"", "long", 1000), (b"key", b"window 1", "key", 1), (b"key", b"window 2", "key", 1)]
        for key_bytes, namespace, key, count in elements:
            for _ in range(count):
                yield SimpleNamespace(
                    key=key,
                    key_bytes=key_bytes,
                    namespace_bytes=namespace,
                    sub_key_bytes=b"",
                    value_bytes=b"abc",
                )


def test_a_key_counts_once_for_all_elements_of_its_list():
    keys, _ = heaviest_keys(Rows(), "uid", "list", 0, 10)
    assert [(key.entries, key.size) for key in keys] == [(1000, 8 + 3000), (2, 2 * (3 + 8 + 3))]
