"""Sources of tables: each row once at any parallelism, whatever fails, and what can't be followed is said."""

from __future__ import annotations

import datetime as dt
import random
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pystate.common.errors import ConfigurationError, CorruptSnapshotError, JobGraphError, RecordError, RestoreError
from pystate.common.time import Instant, current_time_ms
from pystate.common.type_info import Types
from pystate.connectors.installed_connectors import connectors
from pystate.connectors.lakehouse import table_enumerator
from pystate.connectors.lakehouse.table_split import TableSplit
from pystate.runtime.engines.micro_batch.spark.source_progress import words
from pystate.testing import SinkTestHarness, SourceTestHarness
from tests.connectors.lakehouse.tables import ROW, IcebergTables

WIDE = Types.ROW_NAMED(["more", "n"], [Types.LONG(), Types.LONG()])


def add(tables: Any, words: str) -> None:
    tables.write_beside([{"word": word, "n": n} for n, word in enumerate(words)])


def made(tables: Any, *versions: str) -> Any:
    with SinkTestHarness(tables.sink()) as sink:
        sink.open()  # makes it
    for of_version in versions:
        add(tables, of_version)
    return tables


def words_of(rows: list[Any]) -> str:
    return "".join(sorted(row.word for row in rows))


def harness(source: Callable[[], Any], snapshots: Any = None, parallelism: int = 1, **options: Any) -> SourceTestHarness:
    return SourceTestHarness(source, snapshots, parallelism=parallelism, output_type=ROW, **options)


def read_all(source: Any, **options: Any) -> list[Any]:
    with harness(lambda: source, **options) as one:
        return one.run_to_end()


def until(one: SourceTestHarness, wanted: str) -> str:
    return words_of(one.run_until(lambda rows: len(rows) >= len(wanted)))


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_table_is_read_as_it_is(tables, parallelism):
    made(tables, "abc", "de", "")
    rows = read_all(tables.source(), parallelism=parallelism)
    assert words_of(rows) == "abcde"
    assert sorted((row.word, row.n) for row in rows) == tables.rows()


def test_a_table_is_read_as_it_was(tables):
    made(tables, "ab")
    version = tables.version()
    add(tables, "c")
    assert words_of(read_all(tables.source(lambda builder: tables.as_of(builder, version)))) == "ab"
    with pytest.raises(ConfigurationError, match="version 77|snapshot 77"):
        read_all(tables.source(lambda builder: tables.as_of(builder, 77)))


def test_a_table_without_rows_is_empty_and_one_that_is_not_there_is_said(tables):
    assert read_all(made(tables).source()) == []
    tables.drop()
    with pytest.raises(ConfigurationError, match="There is no Delta table|The catalog has no such table"):
        tables.source().check_start()


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (2, 3)])
def test_a_crash_at_any_epoch_and_a_restore_at_another_parallelism_reads_each_row_once(tables, before, after):
    made(tables, "abcdefg", "hij", "k")
    for crash in range(6):
        read = []
        with harness(tables.source, parallelism=before, rows_per_epoch=2) as one:
            for _ in range(crash):
                read += one.run_epoch()
            taken = one.snapshot(1)
            one.run_epoch()  # what nobody keeps
        with harness(tables.source, taken, after, rows_per_epoch=2) as one:
            read += one.run_to_end()
        assert words_of(read) == "abcdefghijk"


@pytest.mark.parametrize(("before", "after"), [(1, 2), (3, 1)])
def test_a_followed_table_is_read_version_by_version_over_a_restore(tables, before, after):
    made(tables, "abc")
    with harness(tables.following, parallelism=before, rows_per_epoch=2) as one:
        assert until(one, "abc") == "abc"
        add(tables, "de")
        add(tables, "f")
        assert until(one, "def") == "def"
        taken = one.snapshot(1)
    add(tables, "gh")  # while the job is down
    with harness(tables.following, taken, after, rows_per_epoch=2) as one:
        add(tables, "i")
        assert until(one, "ghi") == "ghi"
        assert not one.ended
        assert one.run_epoch() == []


def test_where_a_followed_table_is_read_from(tables):
    made(tables, "a")
    time.sleep(0.02)
    between = Instant.of_epoch_milli(current_time_ms())
    time.sleep(0.02)
    add(tables, "b")
    version = tables.version()
    add(tables, "c")
    starts = [
        (lambda builder: tables.beginning_with(builder, version), "bc"),
        (lambda builder: tables.beginning_at(builder, between), "bcd"),
        (tables.beginning_now, ""),
    ]
    for start, first in starts:
        with harness(lambda start=start: tables.following(start)) as one:
            assert until(one, first) == first
            add(tables, "d")
            assert until(one, "d") == "d"
            assert one.run_epoch() == []


def test_the_same_beginning_is_not_said_twice(tables):
    with pytest.raises(JobGraphError, match="was told already where to begin"):
        tables.source(lambda builder: tables.as_of(tables.as_of(builder, 1), 2))


@pytest.mark.parametrize("moment", [dt.datetime(2024, 5, 1, tzinfo=dt.timezone.utc), "2024-05-01", 1_714_521_600_000])
def test_a_time_to_begin_at_is_an_instant(tables, moment):
    with pytest.raises(JobGraphError, match="A time to begin at is an Instant, not"):
        tables.following(lambda builder: tables.beginning_at(builder, moment))


def test_a_version_that_arranges_rows_anew_brings_none_of_them_again(tables):
    made(tables, "a", "b")
    with harness(tables.following) as one:
        assert until(one, "ab") == "ab"
        tables.rewrite()
        add(tables, "c")
        assert until(one, "c") == "c"
        assert one.run_epoch() == []
    assert words_of(read_all(tables.source())) == "abc"


def test_rows_that_are_deleted_fail_a_followed_table_or_are_left_out(tables):
    made(tables, "ab")
    with harness(tables.following) as one, harness(lambda: tables.following(tables.skipping)) as other:
        assert until(one, "ab") == until(other, "ab") == "ab"
        tables.delete("a")
        add(tables, "c")
        assert until(other, "c") == "c"
        with pytest.raises(ConfigurationError, match="a source that follows a table reads what is added"):
            until(one, "c")
    assert words_of(read_all(tables.source())) == "bc"


def test_versions_that_are_forgotten_while_the_job_is_down_are_said(tables):
    made(tables, "a")
    with harness(tables.following) as one:
        assert until(one, "a") == "a"
        taken = one.snapshot(1)
    for more in "bcd":
        add(tables, more)
    tables.forget()
    with harness(tables.following, taken) as one:
        with pytest.raises(ConfigurationError, match="isn't in its log any more|doesn't lead back to snapshot"):
            until(one, "bcd")


def test_versions_that_were_read_may_be_forgotten_while_the_job_is_down(tmp_path):
    tables = IcebergTables(tmp_path)  # Delta's versions are numbers
    made(tables, "a")
    with harness(tables.following) as one:
        assert until(one, "a") == "a"
        taken = one.snapshot(1)
    read = [one.snapshot_id for one in tables.table().metadata.snapshots]
    add(tables, "b")
    with tables.table().maintenance.expire_snapshots() as expire:
        expire.by_ids(read)
    with harness(tables.following, taken) as one:
        assert until(one, "b") == "b"


def test_rows_of_versions_that_an_empty_table_has_forgotten_are_not_taken_for_none(tables):
    made(tables)
    with harness(tables.following) as one:
        assert one.run_epoch() == []
        for word in "abc":
            add(tables, word)
        tables.forget()
        with pytest.raises(ConfigurationError, match="isn't in its log any more|doesn't lead back to its first snapshot"):
            until(one, "abc")


def test_another_table_of_the_name_is_not_gone_on_with(tables):
    made(tables, "a")
    with harness(tables.following) as one:
        until(one, "a")
        taken = one.snapshot(1)
        tables.drop()
        made(tables, "b")
        with pytest.raises(RestoreError, match="is another one than that which the job has read"):
            until(one, "b")
    with pytest.raises(RestoreError, match="is another one"):
        harness(tables.following, taken)


def test_a_file_that_was_deleted_before_it_was_read_is_said(tables):
    made(tables, "a")
    with harness(tables.source) as one:
        taken = one.snapshot(1)
    for file in tables.data_files():
        file.unlink()
    with pytest.raises(RecordError, match="is gone, and wasn't read to its end"):
        read_all(tables.source(), snapshots=taken)


def test_columns_are_chosen_widened_and_null_where_a_file_is_older(tables):
    made(tables, "ab")
    tables.add_column()
    source = tables.source(lambda builder: builder.with_row_type(WIDE))
    source.check_start()
    with SourceTestHarness(lambda: source, output_type=WIDE) as one:
        rows = one.run_to_end()
    assert sorted((row.more or 0, row.n) for row in rows) == [(0, 0), (0, 1), (7, 1)]


def test_a_column_that_older_files_lack_is_read_alone(tables):
    made(tables, "ab")
    tables.add_column()
    more = Types.ROW_NAMED(["more"], [Types.LONG()])
    source = tables.source(lambda builder: builder.with_row_type(more))
    with SourceTestHarness(lambda: source, output_type=more) as one:
        rows = one.run_to_end()
    assert sorted((row.more for row in rows), key=str) == [7, None, None]


def test_columns_that_the_table_lacks_or_has_of_another_type_are_refused(tables):
    made(tables)
    for row_type, said in [
        (Types.ROW_NAMED(["wrod"], [Types.STRING()]), "no column wrod"),
        (Types.ROW_NAMED(["n"], [Types.STRING()]), "isn't read as string"),
        (Types.ROW_NAMED(["n"], [Types.INT()]), "isn't read as int32"),
    ]:
        with pytest.raises(ConfigurationError, match=said):
            tables.source(lambda builder, row_type=row_type: builder.with_row_type(row_type)).check_start()


@pytest.mark.parametrize("columns", [["wrod"], ["n", "wrod"], ["N"]])
@pytest.mark.parametrize("follows", [False, True])
def test_a_column_that_the_table_lacks_ends_the_job_at_its_start(tables, columns, follows):
    made(tables, "ab")
    row_type = Types.ROW_NAMED(columns, [Types.LONG()] * len(columns))
    make = tables.following if follows else tables.source
    source = make(lambda builder: builder.with_row_type(row_type))
    with pytest.raises(ConfigurationError, match=f"no column {columns[-1]}") as raised:
        with SourceTestHarness(lambda: source, output_type=row_type) as one:
            one.run_epoch()
    assert "word, n" in (raised.value.hint or "")


def test_a_column_that_a_followed_table_loses_is_named(tables):
    made(tables, "a")
    with harness(tables.following) as one:
        assert until(one, "a") == "a"
        taken = one.snapshot(1)
        tables.rename_column("word", "text")
        with pytest.raises(ConfigurationError, match="no column word"):
            one.run_until(lambda rows: bool(rows))
    with pytest.raises(ConfigurationError, match="no column word"):
        with harness(tables.following, taken) as one:
            one.run_epoch()


def test_many_versions_are_looked_at_in_parts(tables, monkeypatch):
    monkeypatch.setattr(table_enumerator, "_MOST_WAITING", 2)
    made(tables)
    with harness(tables.following) as one:
        one.run_epoch()
        for word in "abcdef":
            add(tables, word)
        assert until(one, "abcdef") == "abcdef"


def test_a_snapshot_says_how_far_a_table_was_read(tables):
    made(tables, "abc")
    files = tables.source().open_table().files(tables.version())
    splits = [TableSplit(7, file, read).to_plain() for file in files for read in (0, 1)]
    told = [told for one in connectors().values() if (told := one.position_of_splits(splits)) is not None]
    assert [words(one, {}) for one in told] == ["2 files of version 7 to be read, 1 row of them read"]
    assert [one for one in connectors().values() if one.position_of_splits([[1, 2, {"path": "x"}, 0]]) is not None] == []


def test_a_snapshot_says_up_to_which_version_a_table_is_read_of_which_no_file_is_left(tables):
    made(tables, "abc")
    assigned: list[Any] = []
    context: Any = SimpleNamespace(assign_split=lambda split, _reader: assigned.append(split))
    enumerator = tables.following().create_enumerator(context)
    enumerator.start()
    while not assigned or enumerator.snapshot_state(1)[1]:
        enumerator.handle_split_request(0, None)
    found, splits = enumerator.snapshot_state(2)
    told = [told for one in connectors().values() if (told := one.position_of_source(found, splits)) is not None]
    assert {words(one, {}) for one in told} == {f"all files up to version {tables.version()} read"}


def test_a_split_of_a_later_version_is_refused():
    with pytest.raises(CorruptSnapshotError, match="version 9"):
        TableSplit.of([9, 0, {"path": "x"}, 0])


@pytest.mark.parametrize("seed", range(3))
def test_whatever_comes_in_whatever_order_each_row_is_read_once(tables, seed):
    """Rows are added and arranged anew, jobs crash, are restored and rescaled; checkpoints come in the midst of files."""
    order, number = random.Random(seed), 0
    made(tables)
    kept, read, snapshots = [], [], None
    one = harness(tables.following, rows_per_epoch=3)
    for step in range(40):
        choice = order.random()
        if choice < 0.3:
            rows = [{"word": f"{number + row}", "n": step} for row in range(order.randrange(1, 8))]
            tables.write_beside(rows)
            number += len(rows)
        elif choice < 0.35:
            tables.rewrite()
        elif choice < 0.7:
            read += one.run_epoch()
        elif choice < 0.85:
            snapshots, kept = one.snapshot(step), list(read)
        else:
            one.close()
            read = list(kept)
            one = harness(tables.following, snapshots, order.randrange(1, 4), rows_per_epoch=3)
            if snapshots is None:
                read = []
    with one:
        read += one.run_until(lambda rows: len(read) + len(rows) >= number)
        assert one.run_epoch() == []
    assert sorted(int(row.word) for row in read) == list(range(number))
