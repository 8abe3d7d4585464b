"""Rows that get to a database once, or in batches, whatever fails in between."""

from __future__ import annotations

import datetime
import threading
from decimal import Decimal
from uuid import UUID

import pytest
import sqlalchemy
from hypothesis import given
from hypothesis import strategies as st

from pystate.common.configuration import Configuration
from pystate.common.errors import CommitError, ConfigurationError, PystateError
from pystate.common.row import Row, RowKind
from pystate.common.time import Duration
from pystate.connectors.delivery_guarantee import DeliveryGuarantee
from pystate.connectors.sql import SqlConnectionOptions, SqlError, SqlSink
from pystate.connectors.sql.batch_writer import SqlBatchWriter
from pystate.connectors.sql.commit_table import CommitTable
from pystate.connectors.sql.start_check import StartCheck
from pystate.connectors.sql.target import TableTarget
from pystate.connectors.sql.values import from_plain, to_plain
from pystate.testing import SinkTestHarness
from tests.connectors.sql.databases import connected, execute, make_table, rows
from tests.waiting import LONGEST_S, wait_until


def sink_of(url, table, *keys, guarantee=DeliveryGuarantee.EXACTLY_ONCE, **settings):
    builder = SqlSink.builder().set_url(url).set_table(table).set_columns("word", "number").set_upsert_keys(*keys)
    builder.set_delivery_guarantee(guarantee).set_commit_table(f"commits_{table}").set_batch_size(3)
    for name, value in settings.items():
        getattr(builder, f"set_{name}")(value)
    return builder.build()


def markers_of(url, table):
    return rows(url, f"commits_{table} WHERE row_count > 0", "commit_id")


def opened(sink, snapshot=None, **options):
    harness = SinkTestHarness(sink, **options)
    if snapshot is not None:
        harness.initialize_state(snapshot)
    harness.open()
    return harness


def test_rows_are_there_once_their_checkpoint_is_complete_and_once_only(url, table):
    make_table(url, table)
    sink = sink_of(url, table)
    with opened(sink) as harness:
        harness.process_elements([Row(word="a", number=1), {"number": 2, "word": "b"}, ("c", None), ("d", 4)])
        snapshot = harness.snapshot(1)
        assert rows(url, table) == []
        harness.notify_of_completed_checkpoint(1)
        assert rows(url, table) == [("a", 1), ("b", 2), ("c", None), ("d", 4)]
    for _ in range(2):  # the savepoint is resumed twice
        with opened(sink, snapshot) as harness:
            assert harness.get_metrics()["alreadyCommittedCommittables"] == 1
            harness.process_elements([("e", 5)])
            harness.snapshot(2)
            harness.notify_of_completed_checkpoint(2)
    assert rows(url, table) == [("a", 1), ("b", 2), ("c", None), ("d", 4), ("e", 5), ("e", 5)]


class Interrupted(Exception):
    """A process dies here."""


@pytest.mark.parametrize("step", ["begin", "marker", "rows", "commit", "answer"])
def test_a_crash_at_any_step_of_a_commit_loses_nothing_and_doubles_nothing(url, table, step, monkeypatch):
    make_table(url, table)
    sink = sink_of(url, table)

    looked = []
    look_early = StartCheck.look_early

    def look(self):
        look_early(self)
        looked.append(self)

    def crash(*_):
        raise Interrupted

    def crash_in(engine):
        def before(connection, cursor, statement, *_):
            if not looked:
                return
            begins = {"begin": "", "marker": f"INSERT INTO commits_{table}", "rows": "INSERT INTO"}[step]
            if statement.replace('"', "").replace("`", "").startswith(begins) and (
                step != "rows" or "commits_" not in statement
            ):
                raise Interrupted

        if step == "commit":
            engine.dialect.do_commit = crash
        elif step == "answer":
            real = engine.dialect.do_commit

            def after(connection):
                real(connection)
                with connected(url) as other:
                    if other.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar():
                        raise Interrupted

            engine.dialect.do_commit = after
        else:
            sqlalchemy.event.listen(engine, "before_cursor_execute", before)
        return engine

    make = SqlConnectionOptions.create_engine
    harness = opened(sink)
    engine = SqlConnectionOptions(url).create_engine()
    CommitTable(engine, f"commits_{table}", None).create()  # so that the step is one of the rows' transaction
    engine.dispose()
    harness.process_elements([("a", 1), ("b", 2)])
    snapshot = harness.snapshot(1)
    with monkeypatch.context() as patched:
        patched.setattr(SqlConnectionOptions, "create_engine", lambda self: crash_in(make(self)))
        patched.setattr(StartCheck, "look_early", look)
        with pytest.raises(CommitError, match="Interrupted"):
            opened(sink, snapshot)
    assert rows(url, table) == ([("a", 1), ("b", 2)] if step == "answer" else [])
    harness.close()
    with opened(sink, snapshot) as harness:
        assert rows(url, table) == [("a", 1), ("b", 2)]
        assert harness.get_metrics()["alreadyCommittedCommittables"] == (step == "answer")


def test_two_committers_at_once_write_once(url, table):
    make_table(url, table)
    sink = sink_of(url, table)
    with opened(sink) as harness:
        harness.process_elements([(f"w{number}", number) for number in range(50)])
        snapshot = harness.snapshot(1)
    barrier, failures = threading.Barrier(4), []

    def commit():
        barrier.wait(LONGEST_S)
        try:
            with opened(sink, snapshot) as other:
                failures.append(other.num_pending_committables())
        except PystateError as error:
            failures.append(error)

    threads = [threading.Thread(target=commit) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONGEST_S)
    assert failures == [0, 0, 0, 0]
    assert len(rows(url, table)) == 50
    assert len(markers_of(url, table)) == 1


def test_the_committer_that_comes_second_waits_and_writes_nothing(url, table):
    make_table(url, table)
    sink = sink_of(url, table)
    entered, go = threading.Event(), threading.Event()
    engine = SqlConnectionOptions(url).create_engine()
    marker = CommitTable(engine, f"commits_{table}", None)
    marker.create()
    (committable,) = committables_of(sink, [("a", 1)])

    def first():
        with engine.begin() as connection:
            marker.insert(connection, committable["id"], "uid", 1)
            connection.exec_driver_sql(f"INSERT INTO {table} VALUES ('first', 1)")
            entered.set()
            assert go.wait(LONGEST_S)

    thread = threading.Thread(target=first)
    thread.start()
    assert entered.wait(LONGEST_S)
    committer = sink.create_committer(Context())
    request = Request(committable)
    second = threading.Thread(target=committer.commit, args=([request],))
    second.start()
    go.set()
    thread.join(LONGEST_S)
    second.join(LONGEST_S)
    assert request.said == ["already"]
    assert rows(url, table) == [("first", 1)]
    committer.close()
    engine.dispose()


class Context:
    def get_operator_uid(self):
        return "uid"

    def get_job_configuration(self):
        return Configuration()


class Request:
    def __init__(self, committable):
        self.committable = committable
        self.said = []

    def get_committable(self):
        return self.committable

    def signal_already_committed(self):
        self.said.append("already")

    def retry_later(self, reason=None):
        self.said.append("retry")

    def signal_failed_with_unknown_reason(self, error):
        self.said.append(error)


def committables_of(sink, elements):
    writer = sink.create_writer(Context())
    for element in elements:
        writer.write(element, None)
    writer.flush(False)
    return writer.prepare_commit()


def test_a_row_that_is_refused_is_named_and_nothing_is_written(url, table):
    make_table(url, table, " CHECK (number < 10)")
    elements = [(f"w{number}", number) for number in range(8)] + [("bad", 11), ("after", 9)]
    with opened(sink_of(url, table)) as harness:
        harness.process_elements(elements)
        harness.snapshot(1)
        with pytest.raises(CommitError, match=r"the row \('bad', 11\) of table"):
            harness.notify_of_completed_checkpoint(1)
    assert rows(url, table) == []
    with opened(sink_of(url, table, guarantee=DeliveryGuarantee.AT_LEAST_ONCE, batch_size=100)) as harness:
        with pytest.raises(PystateError, match=r"the row \('bad', 11\) of table"):
            harness.process_elements(elements)
            harness.snapshot(1)
    assert rows(url, table) == []


def test_upserts_by_key_keep_the_last_row_of_each(url, table):
    make_table(url, table, ", PRIMARY KEY (word)")
    with opened(sink_of(url, table, "word", guarantee=DeliveryGuarantee.AT_LEAST_ONCE, batch_size=4)) as harness:
        elements = [("a", 1), ("b", 1), ("a", 2), ("c", 1), ("a", 3), ("d", 1)]
        harness.process_elements(elements)
        assert rows(url, table) == [("a", 3), ("b", 1), ("c", 1), ("d", 1)]  # four keys are a batch
        harness.process_elements(
            [Row.of_kind(RowKind.DELETE, "b", None), Row.of_kind(RowKind.UPDATE_BEFORE, "a", 3), ("a", 4)]
        )
        snapshot = harness.snapshot(1)
        assert rows(url, table) == [("a", 4), ("c", 1), ("d", 1)]
        harness.process_elements([("e", 1)])
    assert ("e", 1) not in rows(url, table)
    with opened(sink_of(url, table, "word", guarantee=DeliveryGuarantee.AT_LEAST_ONCE), snapshot) as harness:
        harness.process_elements([*elements, ("b", 5), Row.of_kind(RowKind.DELETE, "b", None), ("a", 4)])
        harness.snapshot(2)
    assert rows(url, table) == [("a", 4), ("c", 1), ("d", 1)]


@pytest.mark.parametrize("mapper", [tuple, lambda row: {"word": row[0], "number": row[1]}, lambda row: Row(*row)])
def test_a_row_keeps_its_kind_whatever_a_mapper_makes_of_it(mapper):
    target = TableTarget("t", ["word", "number"], ["word"], mapper)
    kinds = [RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE]
    made = [target.operation(Row.of_kind(kind, "a", 1)) for kind in kinds]
    assert made == [(False, ["a", 1]), None, (False, ["a", 1]), (True, ["a"])]
    assert TableTarget("t", ["word"], ["word"], lambda word: Row.of_kind(RowKind.DELETE, word)).operation("a") == (
        True,
        ["a"],
    )
    with pytest.raises(SqlError, match="t has no key"):
        TableTarget("t", ["word", "number"], mapper=mapper).operation(Row.of_kind(RowKind.DELETE, "a", 1))


def test_upserts_and_deletes_are_exactly_once_as_well(url, table):
    make_table(url, table, ", PRIMARY KEY (word)")
    sink = sink_of(url, table, "word", delete_when=lambda element: element[1] < 0)
    with opened(sink) as harness:
        harness.process_elements([("a", 1), ("b", 1), ("a", 2), ("b", -1), ("c", 1), ("c", -1), ("c", 2)])
        harness.snapshot(1)
        harness.notify_of_completed_checkpoint(1)
    assert rows(url, table) == [("a", 2), ("c", 2)]


@pytest.mark.parametrize("keys", [(), ("word",)])
def test_many_rows_go_at_once_and_the_last_of_a_key_counts(url, table, keys):
    make_table(url, table, ", PRIMARY KEY (word)" if keys else "")
    elements = [(f"w{number % 700 if keys else number}", number if number % 3 else None) for number in range(1803)]
    with opened(sink_of(url, table, *keys, batch_size=1500)) as harness:
        harness.process_elements(elements)
        harness.snapshot(1)
        harness.notify_of_completed_checkpoint(1)
    assert rows(url, table) == sorted(dict(elements).items())


def test_a_refused_row_is_found_among_many(postgres_server, table):
    url = postgres_server.url
    make_table(url, table, " CHECK (number <> 1234)")
    with opened(sink_of(url, table, batch_size=1500)) as harness:
        harness.process_elements([(f"w{number}", number) for number in range(1803)])
        harness.snapshot(1)
        with pytest.raises(CommitError, match=r"the row \('w1234', 1234\) of table"):
            harness.notify_of_completed_checkpoint(1)
    assert rows(url, table) == []


def test_a_table_that_can_not_roll_back_is_refused(mariadb_url, table):
    execute(mariadb_url, f"CREATE TABLE {table} (word VARCHAR(50), number INTEGER) ENGINE=MyISAM")
    with pytest.raises(ConfigurationError, match="MyISAM"):
        opened(sink_of(mariadb_url, table))


def test_a_statement_of_ones_own(url, table):
    make_table(url, table)
    sql = f"INSERT INTO {table} (word, number) VALUES ('100% ?' /* ? */, ?) -- ?"
    builder = SqlSink.builder().set_url(url).set_statement(sql).set_mapper(lambda element: (element * 2,))
    with opened(builder.set_commit_table(f"commits_{table}").build()) as harness:
        harness.process_elements([1, 2])
        harness.snapshot(1)
        harness.notify_of_completed_checkpoint(1)
    assert rows(url, table) == [("100% ?", 2), ("100% ?", 4)]


def test_markers_are_kept_unless_somebody_says_how_long(url, table, monkeypatch):
    make_table(url, table)
    now = [0]
    monkeypatch.setattr("pystate.connectors.sql.commit_table._now", lambda: now[0])
    monkeypatch.setattr("pystate.connectors.sql.sql_committer._CLEANING_INTERVAL_S", -1.0)
    counts = []
    for retention in (None, Duration.of_minutes(1)):
        with opened(sink_of(url, table, marker_retention=retention)) as harness:
            for checkpoint in (1, 2):
                now[0] += 50_000
                harness.process_elements([("a", 1)])
                harness.snapshot(checkpoint)
                harness.notify_of_completed_checkpoint(checkpoint)
                counts.append(len(markers_of(url, table)))
    assert counts == [1, 2, 2, 2]


def drop_markers(url, table):
    execute(url, f"DROP TABLE commits_{table}")


def empty_markers(url, table):
    execute(url, f"DELETE FROM commits_{table}")


def written_once(url, table, sink):
    with opened(sink) as harness:
        harness.process_elements([("a", 1)])
        snapshot = harness.snapshot(1)
        harness.notify_of_completed_checkpoint(1)
    return snapshot


@pytest.mark.parametrize("lose", [drop_markers, empty_markers])
def test_in_a_table_of_markers_that_was_made_anew_nothing_is_taken_for_absent(url, table, lose):
    make_table(url, table)
    sink = sink_of(url, table)
    snapshot = written_once(url, table, sink)
    lose(url, table)
    for _ in range(2):  # whoever makes it again
        with pytest.raises(PystateError, match=r"dropped and made again.* Nobody knows") as refused:
            opened(sink, snapshot)
        assert "unknown-commits=WRITE" in refused.value.hint
    assert rows(url, table) == [("a", 1)]


@pytest.mark.parametrize(("choice", "times"), [("LEAVE_OUT", 1), ("WRITE", 2)])
def test_what_becomes_of_rows_of_which_nobody_knows_is_asked(url, table, choice, times):
    make_table(url, table)
    sink = sink_of(url, table)
    snapshot = written_once(url, table, sink)
    drop_markers(url, table)
    with opened(sink, snapshot, job_parameters={"pystate.sink.unknown-commits": choice}) as harness:
        harness.process_elements([("b", 1)])
        harness.snapshot(2)
        harness.notify_of_completed_checkpoint(2)
    assert [word for word, _ in rows(url, table)] == ["a"] * times + ["b"]


def test_a_table_of_markers_that_is_made_anew_while_the_job_runs_fails_the_next_commit(url, table):
    make_table(url, table)
    with opened(sink_of(url, table)) as harness:
        harness.process_elements([("a", 1)])
        harness.snapshot(1)
        drop_markers(url, table)
        engine = SqlConnectionOptions(url).create_engine()
        CommitTable(engine, f"commits_{table}", None).create()
        engine.dispose()
        with pytest.raises(PystateError, match="dropped and made again"):
            harness.notify_of_completed_checkpoint(1)
    assert (rows(url, table), markers_of(url, table)) == ([], []), "the transaction is rolled back"


def test_what_was_made_before_tables_of_markers_had_a_generation_is_committed(url, table, monkeypatch):
    make_table(url, table)
    sink = sink_of(url, table)
    monkeypatch.setattr(CommitTable, "stamp", lambda self: {})
    with opened(sink) as harness:
        harness.process_elements([("a", 1)])
        snapshot = harness.snapshot(1)
    drop_markers(url, table)
    opened(sink, snapshot).close()
    assert rows(url, table) == [("a", 1)]


def test_a_savepoint_that_is_older_than_markers_are_kept_is_refused(url, table, monkeypatch):
    make_table(url, table)
    now = [10**12]
    monkeypatch.setattr("pystate.connectors.sql.commit_table._now", lambda: now[0])
    monkeypatch.setattr("pystate.connectors.sql.sql_committer._CLEANING_INTERVAL_S", -1.0)
    sink, snapshots = sink_of(url, table, marker_retention=Duration.of_days(1)), []
    with opened(sink) as harness:
        for checkpoint in (1, 2, 3):
            harness.process_elements([("a", checkpoint)])
            snapshots.append(harness.snapshot(checkpoint))
            harness.notify_of_completed_checkpoint(checkpoint)
            now[0] += Duration.of_days(2 if checkpoint == 1 else 0).to_millis()
    opened(sink, snapshots[2]).close()
    with pytest.raises(PystateError, match="has dropped those of the time"):
        opened(sink, snapshots[0])
    assert rows(url, table) == [("a", 1), ("a", 2), ("a", 3)]


VALUES = [
    *(None, True, 7, -(2**40), 1.5, "text", b"bytes", Decimal("12.340"), UUID(int=5), 2**70),
    datetime.datetime(2026, 11, 23, 1, 2, 3, 456),  # noqa: DTZ001 - the columns have no time zone either
    datetime.datetime(2026, 11, 23, tzinfo=datetime.timezone.utc),
    *(datetime.date(2026, 11, 23), datetime.time(1, 2, 3), datetime.timedelta(days=-1, microseconds=7)),
    [1, [Decimal("2")]],
    {"a": datetime.date(2026, 1, 1)},
]


@given(st.lists(st.sampled_from(VALUES) | st.decimals(allow_nan=False) | st.datetimes() | st.timedeltas(), max_size=5))
def test_values_come_back_as_they_went(values):
    import msgpack

    packed = msgpack.packb([to_plain(value) for value in values])
    back = from_plain(msgpack.unpackb(packed, raw=False))
    assert [(type(value), value) for value in back] == [(type(value), value) for value in values]


def test_kinds_of_values_get_into_their_columns(url, table):
    kinds = "INTEGER", "NUMERIC(9, 3)", "TIMESTAMP", "DATE", "TIME", "VARCHAR(36)", "DOUBLE PRECISION", "JSON"
    columns = [f"c{number}" for number in range(len(kinds))]
    execute(url, f"CREATE TABLE {table} ({', '.join(map(' '.join, zip(columns, kinds, strict=True)))})")
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5)  # noqa: DTZ001 - nor has the column
    element = [
        *(5, Decimal("1.250"), moment, datetime.date(2026, 1, 2), datetime.time(3, 4, 5)),
        *("text", 0.5, {"a": [1]}),
    ]
    builder = SqlSink.builder().set_url(url).set_table(table).set_columns(*columns)
    with opened(builder.set_commit_table(f"commits_{table}").build()) as harness:
        harness.process_elements([tuple(element)])
        harness.snapshot(1)
        harness.notify_of_completed_checkpoint(1)
    ((*found, json),) = rows(url, table, ", ".join(columns))
    assert found[:2] == [5, Decimal("1.250")]
    assert str(found[2]) == "2026-01-02 03:04:05"
    assert str(found[3]) == "2026-01-02"
    assert found[5:] == ["text", 0.5]
    assert str(json).replace("'", '"') == '{"a": [1]}'


def test_a_batch_does_not_wait_longer_than_its_interval(tmp_path, table):
    url = f"sqlite:///{tmp_path}/database"
    make_table(url, table)
    sink = sink_of(url, table, guarantee=DeliveryGuarantee.AT_LEAST_ONCE, batch_size=100, batch_interval_ms=10)
    with opened(sink) as harness:
        harness.process_elements([("a", 1)])
        wait_until(lambda: rows(url, table) == [("a", 1)])


def test_a_batch_that_fails_by_the_clock_fails_the_task(tmp_path, table):
    url = f"sqlite:///{tmp_path}/database"
    make_table(url, table)
    sink = sink_of(url, table, guarantee=DeliveryGuarantee.AT_LEAST_ONCE, batch_size=100, batch_interval_ms=10)
    writer = sink.create_writer(Context())
    assert isinstance(writer, SqlBatchWriter)
    execute(url, f"DROP TABLE {table}")
    writer.write(("a", 1), None)
    wait_until(lambda: writer._error is not None)
    with pytest.raises(SqlError, match="no such table"):
        writer.write(("b", 1), None)
    writer.close()


@pytest.mark.parametrize(
    "build",
    [
        lambda builder: builder.set_url("sqlite://"),
        lambda builder: builder.set_table("t").set_columns("a"),
        lambda builder: builder.set_url("sqlite://").set_url_file("x").set_table("t").set_columns("a"),
        lambda builder: builder.set_url("sqlite://").set_table("t"),
        lambda builder: builder.set_url("sqlite://").set_table("t").set_columns("a").set_upsert_keys("b"),
        lambda builder: builder.set_url("sqlite://").set_table("t").set_columns("a").set_delete_when(bool),
        lambda builder: builder.set_url("sqlite://").set_statement("DELETE").set_upsert_keys("b"),
        lambda builder: builder.set_url("sqlite://").set_table("t").set_columns("a").set_batch_size(0),
    ],
)
def test_what_does_not_go_together_is_refused_where_it_is_built(build):
    with pytest.raises(ConfigurationError):
        build(SqlSink.builder()).build()
