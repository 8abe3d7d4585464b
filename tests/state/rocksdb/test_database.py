"""A RocksDB database by itself."""

import shutil

from pystate.state.rocksdb.database import Database
from pystate.state.rocksdb.options import RocksDBMemory


def test_the_list_of_files_in_a_snapshot_does_not_grow_with_every_snapshot(tmp_path):
    database = Database(str(tmp_path), RocksDBMemory.of_bytes(8 << 20, 0.5))
    family = database.family("words")
    sizes = []
    for number in range(100):
        row = bytes([number % 2]) + bytes(16 << 10)  # the list names the first and the last row of each file
        database.write(family, [(row, b"1")])
        database.end_write()
        linked = tmp_path / "linked"
        database.link_files(str(linked))
        sizes.append(sum(path.stat().st_size for path in linked.glob("MANIFEST-*")))
        shutil.rmtree(linked)
    database.release()
    assert max(sizes) < 2 << 20, "it begins anew at 1 MB"
    assert any(later < earlier for earlier, later in zip(sizes, sizes[1:], strict=False))
