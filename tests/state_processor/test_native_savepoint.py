"""Native savepoints through the state processor, on Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from pystate.common.type_info import Types
from pystate.core.snapshot.metadata import SavepointFormatType
from pystate.core.snapshot.reading.snapshot_reader import SnapshotReader
from pystate.ops.catalog.verification import Verification
from pystate.state_processor import SavepointReader, SavepointWriter
from tests.fixtures import all_kinds as jobs
from tests.state_processor.conftest import WORDS
from tests.state_processor.test_savepoint_writer import all_rows, check_key_groups

SNAPSHOTS = Path(__file__).parent.parent / "fixtures" / "snapshots" / "v0.1.0"
NATIVE, CANONICAL = str(SNAPSHOTS / "native-rocksdb"), str(SNAPSHOTS / "canonical-rocksdb")


@pytest.mark.slow  # many jobs of Spark; tests/core/snapshot/test_native_snapshots.py reads one without
def test_a_native_savepoint_is_read_copied_and_hashed_anew(spark, tmp_path):
    native, canonical = SavepointReader.read(spark, NATIVE), SavepointReader.read(spark, CANONICAL)
    for name in ("value", "list", "map", "reducing", "ttl", "untyped map"):
        rows = [set(map(str, one.read_keyed_state("typed", name).collect())) for one in (native, canonical)]
        assert rows[0] == rows[1] != set()
    (one,) = native.read_keyed_state("typed", "reducing", key="dög").collect()
    assert one in canonical.read_keyed_state("typed", "reducing").collect()
    assert native.read_union_state("typed", "union").count() == 2

    numbers = jobs.numbers_of(WORDS)
    operators = [jobs.all_kinds_operator("typed", numbers, Types.STRING(), "rocksdb", with_raw=False, native=True)]
    bare = jobs.write_savepoint(tmp_path / "bare", operators, format=SavepointFormatType.NATIVE)
    copy = SavepointWriter.from_existing_savepoint(spark, NATIVE).with_message("copied").write(str(tmp_path / "copy"))
    wider = SavepointWriter.from_existing_savepoint(spark, bare).change_max_parallelism(64).write(str(tmp_path / "wider"))
    for path in (copy, wider):
        reader = SnapshotReader(path)
        assert reader.metadata.format is SavepointFormatType.CANONICAL, "it restores on every state backend"
        assert all_rows(path, "typed") == all_rows(NATIVE if path == copy else bare, "typed")
        assert Verification(reader.location, reader.metadata).problems() == []
        check_key_groups(path, "typed")
