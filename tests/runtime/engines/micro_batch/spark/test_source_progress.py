from dataclasses import replace

import pytest

from pystate.common.errors import CorruptSnapshotError
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.runtime.engines.micro_batch.spark.source_progress import SourceProgress, check_logs, source_progress, words
from pystate.runtime.engines.micro_batch.spark.spark_checkpoint import NO_OFFSET, pack_archive
from tests.core.snapshot.snapshots import source_position

LOG = {
    "9.compact": b'v1\n{"path":"a"}\n{"path":"b"}\n{"path":"c"}',
    "10": b'v1\n{"path":"d"}',
    "11": b'v1\n{"path":"e"}\n{"path":"f"}',
}


@pytest.mark.parametrize(
    ("offset", "told"),
    [
        (NO_OFFSET, "not read yet"),
        ('{"logOffset":10}', "4 files read (log offset 10)"),
        ('{"logOffset":11}', "6 files read (log offset 11)"),
        ('{"logOffset":12}', "file batches up to log offset 12 read"),  # an entry is missing
        ('{"index":3,"checksum":"00ff"}', "3 elements of the collection read"),
        ('{"index":1,"checksum":"00ff"}', "1 element of the collection read"),
        ('{"clicks":{"0":12}}', "topic clicks: partition 0 at 12"),
        (
            '{"orders":{"10":7,"9":1234567},"clicks":{"0":1}}',
            "topic clicks: partition 0 at 1; topic orders: partitions 9 at 1,234,567, 10 at 7",
        ),
        ("1700", "offset 1,700"),
        ('{"a":1}', '{"a":1}'),
        ("{}", "{}"),
        ("true", "true"),
        ("[1]", "[1]"),
        ("no json", "no json"),
    ],
)
def test_offsets_in_words(offset, told):
    assert words(offset, LOG) == told


def test_each_source_is_told(tmp_path):
    location = SnapshotLocation(str(tmp_path))
    position = source_position(location)
    with location.open(position.files) as file:
        archive = file.read()

    assert source_progress(position, archive) == [
        SourceProgress("files", "3 files read (log offset 1)", '{"logOffset":1}'),
        SourceProgress("kafka", "topic orders: partitions 0 at 1,234, 1 at 7", '{"orders":{"1":7,"0":1234}}'),
    ]
    with pytest.raises(CorruptSnapshotError, match="no readable entry for batch 8"):
        check_logs(replace(position, epoch=8), archive)
    with pytest.raises(CorruptSnapshotError, match="about 2 sources, the metadata about 1"):
        check_logs(replace(position, sources=position.sources[:1]), archive)
    with pytest.raises(CorruptSnapshotError):
        source_progress(position, archive[:-1])


def test_a_job_that_has_read_nothing_has_no_sources(tmp_path):
    position = replace(source_position(SnapshotLocation(str(tmp_path))), epoch=-1, sources=[], query_id="")

    assert source_progress(position, pack_archive({})) == []
