"""What a database refuses shows when a sink is opened, before rows come."""

from __future__ import annotations

import pytest

from pystate.common.errors import PystateError
from pystate.connectors.delivery_guarantee import DeliveryGuarantee
from pystate.connectors.sql import SqlSink
from tests.connectors.sql.databases import execute, make_table, rows
from tests.connectors.sql.test_sql_sink import opened, sink_of

GUARANTEES = pytest.mark.parametrize("guarantee", [DeliveryGuarantee.EXACTLY_ONCE, DeliveryGuarantee.AT_LEAST_ONCE])


def refused(sink):
    with pytest.raises(PystateError, match="can't be written") as failed:
        opened(sink)
    assert "s3cret" not in str(failed.value)
    return str(failed.value)


@GUARANTEES
def test_a_table_or_a_column_that_is_not_there(url, table, guarantee):
    assert table in refused(sink_of(url, table, guarantee=guarantee))
    execute(url, f"CREATE TABLE {table} (word VARCHAR(50))")
    assert "number" in refused(sink_of(url, table, guarantee=guarantee))


@GUARANTEES
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("s3cret%2Fof%3Atests@", "wrong@", "password authentication failed"),
        (":s3cret%2Fof%3Atests@", "@", "no password supplied"),
        ("/postgres", "/nowhere", 'database "nowhere" does not exist'),
    ],
    ids=["password", "no password", "database"],
)
def test_a_server_that_lets_nobody_in(postgres_server, table, guarantee, old, new, said):
    before, found, after = postgres_server.url.rpartition(old)
    assert found
    assert said in refused(sink_of(before + new + after, table, guarantee=guarantee))


def test_rights_that_are_missing(postgres_server, table):
    url = postgres_server.url
    make_table(url, table, ", PRIMARY KEY (word)")
    execute(url, f"CREATE USER reader_{table} PASSWORD 's3cret'", f"GRANT SELECT ON {table} TO reader_{table}")
    as_reader = url.replace("//pystate:s3cret%2Fof%3Atests", f"//reader_{table}:s3cret")
    markers = f"markers_{table}"
    execute(
        url,
        f"CREATE TABLE {markers} (commit_id VARCHAR(32) PRIMARY KEY, operator_uid VARCHAR(255) NOT NULL, "
        "row_count BIGINT NOT NULL, committed_at BIGINT NOT NULL)",
        f"GRANT SELECT ON {markers} TO reader_{table}",
    )

    def sink():
        made = SqlSink.builder().set_url(as_reader).set_table(table).set_columns("word", "number").set_upsert_keys("word")
        return made.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_commit_table(markers).build()

    assert f"permission denied for table {markers}" in refused(sink())
    execute(url, f"GRANT INSERT ON {markers} TO reader_{table}")
    assert f"permission denied for table {table}" in refused(sink())
    execute(url, f"GRANT INSERT, UPDATE, DELETE ON {table} TO reader_{table}")
    with opened(sink()) as harness:
        harness.process_elements([("a", 1)])
        harness.snapshot(1)
        harness.notify_of_completed_checkpoint(1)
    assert rows(url, table) == [("a", 1)]
    assert len(rows(url, f"{markers} WHERE row_count > 0", "commit_id")) == 1, "what was tried at the start is taken back"


def test_a_server_that_is_away_is_asked_at_the_first_commit(postgres_server, table):
    make_table(postgres_server.url, table)
    postgres_server.kill()
    try:
        harness = opened(sink_of(postgres_server.url, table))
    finally:
        postgres_server.start()
    with harness:
        harness.process_elements([("a", 1)])
        harness.snapshot(1)
        harness.notify_of_completed_checkpoint(1)
    assert rows(postgres_server.url, table) == [("a", 1)]
