"""Both engines read the same files, and the same of them: the table of `docs/connectors-files.md`, and rows of CSV."""

from __future__ import annotations

from collections import Counter

import pytest

from pystate.common import Types
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.connectors.file_system import FileSource, StreamFormat
from pystate.datastream.formats.csv import CsvReaderFormat, CsvSchema
from tests.connectors.file_system.file_rules import RULES
from tests.engines import on_both_engines

pytestmark = [pytest.mark.slow, on_both_engines]

CSV = 'ann,"Dear Bob,\nsee you, Ann"\r\nbob,"a ""b""\r\n\r\n"\ncy,"x"'
ROWS = [["ann", "Dear Bob,\nsee you, Ann"], ["bob", 'a "b"\r\n\r\n'], ["cy", "x"]]


def test_the_rules_of_the_table_and_of_csv_hold(run_job, tmp_path):
    found = Counter()
    for number, rule in enumerate(RULES):
        rule.write(tmp_path / "in" / str(number))
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv" / "a.csv").write_bytes(CSV.encode())

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        lines = env.from_source(
            FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path / "in")).build(), None, "lines"
        )
        schema = CsvSchema.builder().add_string_column("who").add_string_column("what").build()
        csv = env.from_source(
            FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), str(tmp_path / "csv")).build(),
            None,
            "csv",
        )
        texts = csv.map(lambda row: str(list(row)), Types.STRING())
        lines.map(lambda line: line, Types.STRING()).union(texts).for_each_batch(take)
        env.execute("file rules")

    def take(frame, epoch):
        found.update(row[0] for row in frame.collect())

    run_job(program, {}).result()
    assert found == Counter([line for rule in RULES for line in rule.lines] + [str(row) for row in ROWS])
