"""A PostgreSQL whose sessions, or which itself, die in the middle of a commit."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from pystate.common.errors import CommitError, PystateError
from pystate.connectors.delivery_guarantee import DeliveryGuarantee
from pystate.connectors.sql import SqlConnectionOptions
from pystate.testing import SinkTestHarness
from tests.connectors.sql.databases import connected, execute, make_table, rows
from tests.connectors.sql.test_sql_sink import opened, sink_of


class Killer:
    """Kills the session, or the server, at a step of the next transactions of a committer."""

    def __init__(self, server, monkeypatch):
        self.server = server
        self.plan = []
        make = SqlConnectionOptions.create_engine

        def create(options):
            engine = make(options)
            real = engine.dialect.do_commit

            def commit(pooled):
                connection = pooled.dbapi_connection
                if connection.info.transaction_status != 2:  # INTRANS: something was asked
                    return real(pooled)
                fate = self.plan.pop(0) if self.plan else None
                if fate == "session before":
                    self.terminate(connection.info.backend_pid)
                elif fate == "server before":
                    self.restart()
                result = real(pooled)
                if fate == "session after":
                    self.terminate(connection.info.backend_pid)
                    connection.execute("SELECT 1")  # nobody heard of the COMMIT
                elif fate == "server after":
                    self.restart()
                    connection.execute("SELECT 1")
                return result

            engine.dialect.do_commit = commit
            return engine

        monkeypatch.setattr(SqlConnectionOptions, "create_engine", create)

    def terminate(self, pid):
        import psycopg

        with psycopg.connect(self.server.url, autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,))

    def restart(self):
        self.server.kill()
        self.server.start()


@pytest.mark.parametrize("fate", ["session before", "session after", "server before", "server after"])
def test_a_commit_whose_outcome_is_unknown_is_looked_up_and_done_once(postgres_server, table, fate, monkeypatch):
    url = postgres_server.url
    make_table(url, table)
    killer = Killer(postgres_server, monkeypatch)
    with opened(sink_of(url, table)) as harness:
        for checkpoint in (1, 2):
            harness.process_elements([("a", checkpoint), ("b", checkpoint)])
            harness.snapshot(checkpoint)
            killer.plan = [fate] if checkpoint == 2 else []
            harness.notify_of_completed_checkpoint(checkpoint)
            assert harness.num_pending_committables() == 0
        metrics = harness.get_metrics()
    assert not killer.plan
    assert rows(url, table) == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
    assert metrics["retriedCommittables"] == 1
    assert metrics["alreadyCommittedCommittables"] == ("after" in fate)


def test_deadlocks_and_serialization_failures_are_tried_again(postgres_server, table, monkeypatch):
    url = postgres_server.url
    make_table(url, table, ", PRIMARY KEY (word)")
    execute(
        url,
        f"""CREATE FUNCTION refuse_{table}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
              IF nextval('tries_{table}') <= 2 THEN RAISE EXCEPTION 'in the way' USING ERRCODE = '40P01'; END IF;
              RETURN NEW; END $$""",
        f"CREATE SEQUENCE tries_{table}",
        f"CREATE TRIGGER refuse BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION refuse_{table}()",
    )
    for guarantee in (DeliveryGuarantee.EXACTLY_ONCE, DeliveryGuarantee.AT_LEAST_ONCE):
        execute(url, f"ALTER SEQUENCE tries_{table} RESTART")
        with opened(sink_of(url, table, "word", guarantee=guarantee)) as harness:
            harness.process_elements([(guarantee.name, 1)])
            harness.snapshot(1)
            harness.notify_of_completed_checkpoint(1)
    assert rows(url, table) == [("AT_LEAST_ONCE", 1), ("EXACTLY_ONCE", 1)]


def test_a_server_that_is_away_too_long_fails_the_job_and_its_checkpoint_is_committed_later(postgres_server, table):
    url = postgres_server.url
    make_table(url, table)
    sink = sink_of(url, table)
    with opened(sink) as harness:
        harness.process_elements([("a", 1)])
        snapshot = harness.snapshot(1)
        postgres_server.kill()
        try:
            with pytest.raises(CommitError, match="after 10 retries"):
                harness.notify_of_completed_checkpoint(1)
            batches = sink_of(url, table, guarantee=DeliveryGuarantee.AT_LEAST_ONCE, max_retries=0)
            with opened(batches) as other:
                other.process_elements([("b", 1)])
                with pytest.raises(PystateError, match="could not be written") as failed:
                    other.snapshot(1)
        finally:
            postgres_server.start()
    assert "s3cret" not in str(failed.value)
    with opened(sink, snapshot):
        assert rows(url, table) == [("a", 1)]


def test_without_a_wait_for_the_disk_the_sessions_wait_all_the_same(postgres_server):
    url = f"{postgres_server.url}?options=-csynchronous_commit%3Doff"
    with connected(url) as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "off"
    engine = SqlConnectionOptions(url).create_engine()
    with engine.begin() as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
    engine.dispose()


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)])
def test_nothing_is_lost_doubled_or_early_over_deaths_at_random(postgres_server, table, seed, monkeypatch):
    url, order = postgres_server.url, random.Random(seed)
    make_table(url, table)
    killer, sink = Killer(postgres_server, monkeypatch), sink_of(url, table)
    fates = [None, None, "session before", "session after", "server before", "server after"]
    written, visible, checkpoint, number = [], Counter(), 0, 0
    snapshot = None
    for _ in range(12):  # lives of the job
        harness = SinkTestHarness(sink)
        if snapshot is not None:
            harness.initialize_state(snapshot)
        killer.plan = [order.choice(fates)]
        harness.open()
        visible = Counter(written)
        number = len(written)  # the source is read again after the checkpoint
        for _ in range(order.randrange(1, 4)):
            batch = [(f"w{number + offset}", number + offset) for offset in range(order.randrange(0, 5))]
            harness.process_elements(batch)
            assert Counter(rows(url, table)) == visible, "early, lost or doubled"
            number += len(batch)
            checkpoint += 1
            taken = harness.snapshot(checkpoint)
            if order.random() < 0.2:
                break  # the job dies, and the checkpoint with it
            snapshot, written = taken, [*written, *batch]
            if order.random() < 0.3:
                break  # the job dies after `_metadata`
            killer.plan = [order.choice(fates)]
            harness.notify_of_completed_checkpoint(checkpoint)
            visible = Counter(written)
            assert Counter(rows(url, table)) == visible, "lost or doubled"
        harness.close()
    with opened(sink, snapshot):
        assert sorted(written) == rows(url, table)
