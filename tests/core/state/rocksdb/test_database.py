"""A RocksDB database by itself."""

import shutil
import subprocess
import sys

from pystate.core.state.rocksdb.database import Database
from pystate.core.state.rocksdb.rocksdb_settings import RocksDBMemory
from tests.waiting import LONGEST_S


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
    assert max(sizes) < 2 << 20, "it starts over at 1 MB"
    assert any(later < earlier for earlier, later in zip(sizes, sizes[1:], strict=False))


READS_WHAT_IS_DROPPED = """
import gc
import sys

from pystate.core.state.rocksdb.database import Database
from pystate.core.state.rocksdb.rocksdb_settings import RocksDBMemory

database = Database(sys.argv[1], RocksDBMemory.of_bytes(8 << 20, 0.5))
database.retain()
rows = [(number.to_bytes(4, "big"), b"1" * 50) for number in range(20_000)]


def view_of_a_dropped_family(freeze):
    family = database.family("words")
    database.write(family, rows)
    database.end_write()
    view = freeze(family)
    database.drop_family(family)
    return view


one, all_of_them = view_of_a_dropped_family(database.freeze), view_of_a_dropped_family(database.freeze_scan)
gc.collect()
database.release()
later = database.family("words")
database.write(later, [(row, b"2") for row, _ in rows])
database.end_write()
print(one.get(rows[77][0]) == rows[77][1], list(one.starting_with(b"")) == rows, list(all_of_them.items()) == rows)
"""


def test_views_of_a_dropped_column_family_stay_readable(tmp_path):
    words = [sys.executable, "-c", READS_WHAT_IS_DROPPED, str(tmp_path)]  # a process of its own: it is native memory
    done = subprocess.run(words, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    assert (done.returncode, done.stdout) == (0, "True True True\n"), done.stderr
