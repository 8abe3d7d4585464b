"""A table of PostgreSQL becomes one of Delta and one of SQL by changes of Debezium's own connector, whatever dies."""

from __future__ import annotations

import datetime as dt
import random
import time
from collections import Counter

import psycopg
import pytest

from pystate.connectors.sql import SqlSink
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.connectors.delta import DeltaSink
from pystate.datastream.formats.change_data import DebeziumAvroDeserializationSchema, DebeziumJsonDeserializationSchema
from tests.connectors.lakehouse.tables import DeltaTables
from tests.faults.processes import kill, needs_proc
from tests.faults.workload import RECOVERING
from tests.servers import debezium_connect, postgres
from tests.servers.kafka_broker import spark_jars
from tests.servers.schema_registry import registry  # noqa: F401 - a fixture
from tests.testing.test_examples import example
from tests.waiting import wait_until

MISSING = debezium_connect.missing() or postgres.missing() or ("" if spark_jars() else "there is no Kafka here")
pytestmark = [needs_proc, pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.skipif(bool(MISSING), reason=str(MISSING))]

EXAMPLE = example("postgres_to_delta")
OPTIONS = {
    **RECOVERING,
    "restart-strategy.fixed-delay.attempts": "1000",
    "restart-strategy.fixed-delay.delay": "0 ms",
}
COLUMNS = ", ".join(EXAMPLE.COLUMNS)
TABLE = "(id BIGINT PRIMARY KEY, owner TEXT, cents NUMERIC(12, 2), opened DATE, at TIMESTAMP, tags TEXT[])"
TOPIC = f"{debezium_connect.NAME}.public.accounts"
AVRO = "io.apicurio.registry.utils.converter.AvroConverter"
VALUES = {"decimal.handling.mode": "string", "time.precision.mode": "isostring", "table.include.list": "public.accounts"}


def of_avro(url):
    """Return the properties by which Apicurio's converter writes as Confluent's does."""
    where = {
        "": AVRO,
        ".apicurio.registry.url": url.replace("/ccompat/v7", "/registry/v2"),
        ".apicurio.registry.auto-register": "true",
        ".apicurio.registry.as-confluent": "true",
        ".apicurio.registry.use-id": "contentId",
        ".apicurio.registry.headers.enabled": "false",
    }
    return {f"{part}.converter{key}": value for part in ("key", "value") for key, value in where.items()}


class Accounts:
    """The table of PostgreSQL, which changes at random."""

    def __init__(self, server, seed):
        self.server, self.chance, self.next_id = server, random.Random(seed), 0

    def connect(self):
        return psycopg.connect(self.server.url, autocommit=True)

    def change(self, times):
        with self.connect() as connection:
            for _ in range(times):
                with connection.transaction():
                    for _ in range(self.chance.randrange(1, 4)):
                        self._change(connection)

    def _change(self, connection):
        ids = [one for (one,) in connection.execute("SELECT id FROM accounts ORDER BY id").fetchall()]
        what = self.chance.choice((*("insert",) * 5, "update", "large", "null", "delete", "key")) if ids else "insert"
        of = self.chance.choice(ids) if ids else None
        if what == "insert":
            self.next_id += 1
            values = (self.next_id, f"ä {self.next_id}", self.chance.randrange(-9999, 9999) / 100)
            more = "'2026-01-31', '2026-01-31 12:00:00.123456', '{a,NULL,\"b c\"}'"
            connection.execute(f"INSERT INTO accounts VALUES (%s, %s, %s, {more})", values)
        elif what == "key":  # to one that is free, which another row may have had
            taken = set(ids)
            free = next(one for one in range(1, self.next_id + 2) if one not in taken)
            self.next_id = max(self.next_id, free)
            connection.execute("UPDATE accounts SET id = %s WHERE id = %s", (free, of))
        elif what == "large":  # it isn't told again when another column changes
            text = "(SELECT string_agg(md5((n * %s)::text), '') FROM generate_series(1, 300) n)"
            connection.execute(f"UPDATE accounts SET owner = {text} WHERE id = %s", (self.chance.randrange(1000), of))
        elif what == "null":
            connection.execute("UPDATE accounts SET cents = NULL, tags = NULL, opened = NULL WHERE id = %s", (of,))
        elif what == "update":
            connection.execute("UPDATE accounts SET cents = coalesce(cents, 0) + 1 WHERE id = %s", (of,))
        else:
            connection.execute("DELETE FROM accounts WHERE id = %s", (of,))

    def rows(self, table="accounts"):
        with self.connect() as connection:
            return by_id(connection.execute(f"SELECT {COLUMNS} FROM {table}").fetchall())


def without_zone(value):
    """Return a time of Delta, which is one in UTC, as PostgreSQL has it."""
    return value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value


def by_id(rows):
    assert max(Counter(row[0] for row in rows).values(), default=1) == 1, "a row twice"
    return {row[0]: row for row in rows}


def changed_and_kept(source, connect):
    """Change a row, which may still be part of the snapshot; return whether Connect has kept the offset of a change."""
    source.change(1)
    time.sleep(0.5)
    return connect.keeps_changes()


@pytest.mark.parametrize(
    ("engine", "kind"), [("micro-batch", "plain"), ("real-time", "schemas"), ("micro-batch", "avro")], indirect=["engine"]
)
def test_a_table_follows_another_whatever_dies(request, kafka, run_job, tmp_path, engine, kind):
    url = request.getfixturevalue("registry") if kind == "avro" else None
    converters = {
        "plain": {},
        "schemas": {f"{part}.converter.schemas.enable": "true" for part in ("key", "value")},
        "avro": of_avro(url) if url else {},
    }[kind]
    metadata = {"source": "source.properties"}
    if url:
        schema = DebeziumAvroDeserializationSchema(EXAMPLE.CHANGE, url, metadata=metadata)
    else:
        schema = DebeziumJsonDeserializationSchema(EXAMPLE.CHANGE, metadata=metadata)
    for name in ("connect", "postgres"):
        (tmp_path / name).mkdir()
    table = DeltaTables(tmp_path)
    name = f"c{kind}"
    topic = TOPIC.replace(debezium_connect.NAME, name)
    settings = {**VALUES, **converters, "topic.prefix": name}
    with postgres.running_postgres(tmp_path / "postgres", wal_level="logical") as server:
        source = Accounts(server, seed=1)
        with source.connect() as connection:
            connection.execute(f"CREATE TABLE accounts {TABLE}")
            connection.execute("ALTER TABLE accounts REPLICA IDENTITY FULL")
            connection.execute(f"CREATE TABLE copies {TABLE}")
        source.change(10)

        def program():
            env = StreamExecutionEnvironment.get_execution_environment()
            rows = EXAMPLE.accounts(env, kafka.address, topic, schema)
            rows.sink_to(DeltaSink.for_table(table.path).with_row_type(EXAMPLE.ACCOUNT).with_upsert_by("id").build()).uid(
                "delta"
            )
            copies = SqlSink.builder().set_url(server.url).set_table("copies").set_columns(*EXAMPLE.COLUMNS)
            rows.sink_to(copies.set_upsert_keys("id").set_max_retries(60).build()).uid("copies")
            env.execute("following PostgreSQL")

        def is_equal():
            there = source.rows()
            read = by_id([tuple(map(without_zone, (row[column] for column in EXAMPLE.COLUMNS))) for row in table.dicts()])
            return there == read == source.rows("copies")

        with debezium_connect.running_connect(tmp_path / "connect", kafka.address, server, settings) as connect:
            wait_until(lambda: changed_and_kept(source, connect))  # else it would read another snapshot once it is killed
            job = run_job(program, OPTIONS)
            job.wait_running()
            job.wait_for(is_equal)
            source.change(20)
            connect.kill()
            source.change(20)
            connect.start()
            kill(sorted(job.master.slot_pids.values())[0])
            source.change(20)
            job.wait_for(is_equal)
            server.kill()
            server.start()
            with source.connect() as connection:
                connection.execute("ALTER TABLE accounts ADD COLUMN more INT DEFAULT 7")
            source.change(20)
            job.wait_for(is_equal)
            path = job.savepoint(tmp_path / "savepoints", stop=True)
            job.result()
            source.change(20)
            connect.kill()
            connect.start()
            job = run_job(program, {**OPTIONS, "execution.state-recovery.path": path, "parallelism.default": "3"})
            job.wait_for(is_equal)
            job.savepoint(tmp_path / "savepoints", cancel=True)
