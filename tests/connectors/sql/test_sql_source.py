"""The rows of a query as a bounded source."""

from __future__ import annotations

import pytest

from pystate.common import Types
from pystate.common.errors import ConfigurationError, PystateError
from pystate.common.row import Row
from pystate.connectors.sql import SqlConnectionOptions, SqlSource
from pystate.testing import SourceTestHarness
from tests.connectors.sql.databases import connected, execute, make_table

ROW = Types.ROW_NAMED(["word", "number"], [Types.STRING(), Types.LONG()])


@pytest.fixture
def filled(url, table):
    make_table(url, table)
    with connected(url) as connection:
        for number in range(300):
            connection.exec_driver_sql(f"INSERT INTO {table} VALUES ('w{number}', {number})")
    return table


def source_of(url, table, **settings):
    where = "WHERE number BETWEEN ? AND ? " if settings.get("partition_bounds") else ""
    query = f"SELECT word, number FROM {table} {where}ORDER BY number"
    return lambda: SqlSource(SqlConnectionOptions(url), query, ROW, **settings)


EXPECTED = [Row(word=f"w{number}", number=number) for number in range(300)]


def in_order(found):
    return sorted(found, key=lambda row: row.number)


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("settings", [{}, {"partition_bounds": (0, 299), "partitions": 7, "fetch_size": 10}])
def test_each_row_is_read_once(url, filled, settings, parallelism):
    with SourceTestHarness(source_of(url, filled, **settings), parallelism=parallelism, output_type=ROW) as harness:
        assert in_order(harness.run_to_end()) == EXPECTED


@pytest.mark.parametrize("after", [1, 2])
def test_a_checkpoint_goes_on_in_the_middle_of_a_split(url, filled, after):
    make = source_of(url, filled, partition_bounds=(0, 299), partitions=3, fetch_size=10)
    with SourceTestHarness(make, parallelism=2, output_type=ROW, rows_per_epoch=25) as harness:
        first = harness.run_until(lambda found: len(found) >= 40)
        snapshots = harness.snapshot(1)
    assert 40 <= len(first) < 300
    with SourceTestHarness(make, parallelism=after, output_type=ROW, snapshots=snapshots) as harness:
        assert in_order([*first, *harness.run_to_end()]) == EXPECTED


@pytest.mark.parametrize(
    ("bounds", "partitions", "expected"),
    [
        (None, 1, [()]),
        ((1, 10), 3, [(1, 3), (4, 6), (7, 10)]),
        ((5, 6), 9, [(5, 5), (6, 6)]),
        ((6, 5), 2, []),
        ((-(2**63), 2**63 - 1), 2, [(-(2**63), -1), (0, 2**63 - 1)]),
    ],
)
def test_ranges_are_cut_without_gaps(bounds, partitions, expected):
    query = "SELECT 1" if bounds is None else "SELECT 1 WHERE 1 BETWEEN ? AND ?"
    source = SqlSource(SqlConnectionOptions("sqlite://"), query, ROW, partition_bounds=bounds, partitions=partitions)
    assert [split.parameters for split in source.splits()] == expected


def test_what_can_not_be_is_refused(tmp_path):
    options = SqlConnectionOptions(f"sqlite:///{tmp_path}/database")
    with pytest.raises(ConfigurationError, match="question marks"):
        SqlSource(options, "SELECT 1", ROW, partition_bounds=(1, 2))
    with pytest.raises(ConfigurationError, match="rows"):
        SqlSource(options, "SELECT 1", Types.LONG())
    execute(f"sqlite:///{tmp_path}/database", "CREATE TABLE t (a INTEGER)")
    for query, message in (("SELECT a FROM t", "1 columns, and the type 2"), ("SELECT a, b FROM t", "could not be run")):
        with SourceTestHarness(lambda query=query: SqlSource(options, query, ROW), output_type=ROW) as harness:
            with pytest.raises(PystateError, match=message):
                harness.run_to_end()


@pytest.mark.parametrize(
    ("query", "ordered"),
    [
        ("SELECT 1 ORDER BY 1", True),
        ("SELECT a FROM t order\n  by a, b", True),
        ("SELECT a FROM t", False),
        ("SELECT rank() OVER (ORDER BY a) FROM (SELECT a FROM t ORDER BY (a)) s", False),
    ],
)
def test_rows_without_an_order_may_be_others_after_a_failure(query, ordered):
    source = SqlSource(SqlConnectionOptions("sqlite://"), query, ROW)
    assert (source.unlike_again is None) is ordered
