"""Lines that are none of their format are refused one by one, and what stands around them is read."""

from __future__ import annotations

import io

import pytest

from pystate.common import Row, Types
from pystate.common.errors import JobGraphError, RecordError
from pystate.connectors.bad_records import BAD_RECORD, BadRecords
from pystate.connectors.file_system.formats.csv_format import CsvFormat
from pystate.connectors.file_system.formats.csv_schema import CsvSchema
from pystate.connectors.file_system.formats.json_format import JsonFormat
from pystate.connectors.file_system.formats.split_format import TextLines
from pystate.core.api.output_tag import OutputTag
from pystate.datastream.connectors.file_system import FileSource, StreamFormat
from pystate.datastream.formats.parquet import ParquetColumnarRowInputFormat
from pystate.testing import SourceTestHarness

PAIR = Types.ROW_NAMED(["n", "s"], [Types.LONG(), Types.STRING()])
ROWS = [Row(n=1, s="a"), Row(n=2, s="b"), Row(n=3, s="c")]
TAG = OutputTag("bad", BAD_RECORD)

JSON = b'{"n":1,"s":"a"}\nno json\r\n{"n":2,"s":"b"}\n{"n":"x","s":"b"}\n{"n":3,"s":"c"}\n'
RUN_TOGETHER = (
    b'{"n":1,"s":"a"}\n{"n":4,"s":"d"}{"n":5,"s":"e"}\n{"n":2,"s":"b"} \n{"n":6,"s":"f"}{"n":\n{"n":3,"s":"c"}\t\n'
)
CSV = b"1,a\nx,b\n2,b\n1,2,3\n3,c\n"
TEXT = b"a\n\xff\nb\r\n\xfe\xfe\nc"
CASES = {
    "json": (JsonFormat(PAIR, "UTC"), JSON, ROWS, [b"no json", b'{"n":"x","s":"b"}'], [16, 41]),
    "json, run together": (
        JsonFormat(PAIR, "UTC"),
        RUN_TOGETHER,
        ROWS,
        [b'{"n":4,"s":"d"}{"n":5,"s":"e"}', b'{"n":6,"s":"f"}{"n":'],
        [16, 64],
    ),
    "csv": (CsvFormat(CsvSchema(PAIR), "UTC"), CSV, ROWS, [b"x,b", b"1,2,3"], None),
    "text": (TextLines(), TEXT, ["a", "b", "c"], [b"\xff", b"\xfe\xfe"], [2, 7]),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("most", [1, 2, 1000])
def test_what_stands_around_wrong_lines_is_read(case, most):
    split_format, data, elements, wrong, places = CASES[case]
    records, refused, found = split_format.open(io.BytesIO(data), "f", 0), [], []
    records.refuse = lambda *said: refused.append(said)

    while (some := records.read(most)) is not None:
        found += some

    assert found == elements
    assert [value for value, _, _ in refused] == wrong
    assert all(reason for _, _, reason in refused)
    if places is not None:
        assert [position for _, position, _ in refused] == places
    assert records.position == len(data)


@pytest.mark.parametrize("case", CASES)
def test_without_a_wish_they_fail_the_job(case):
    split_format, data, *_ = CASES[case]
    records = split_format.open(io.BytesIO(data), "f", 0)

    with pytest.raises(RecordError, match=r"line of f after byte|no UTF-8"):
        while records.read(1) is not None:
            pass


def source(path, policy):
    made = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(path))
    return made.set_bad_records(policy).build()


def test_they_go_to_the_side_output_of_the_source_once(tmp_path):
    (tmp_path / "f.txt").write_bytes(TEXT)
    made = source(tmp_path, BadRecords.to_side_output(TAG))
    in_slots = lambda: made.in_slots(None, "files")[0]  # noqa: E731

    with SourceTestHarness(in_slots, output_type=Types.STRING(), side_outputs=[TAG]) as harness:
        assert sorted(harness.run_to_end()) == ["a", "b", "c"]
        side = harness._subtasks[0].get_side_output(TAG)

    uri = f"file:{tmp_path}/f.txt"
    assert [(row["value"], row["source"], row["position"], row["partition"]) for row in side] == [
        (b"\xff", uri, 2, None),
        (b"\xfe\xfe", uri, 7, None),
    ]


def test_a_format_whose_records_hang_together_is_refused(tmp_path):
    made = FileSource.for_bulk_file_format(ParquetColumnarRowInputFormat(PAIR), str(tmp_path))
    made = made.set_bad_records(BadRecords.skip()).build()

    with pytest.raises(JobGraphError, match="can't be told from each other"):
        made.in_slots(None, "files")
