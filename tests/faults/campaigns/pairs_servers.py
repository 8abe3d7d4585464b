"""What the job of the campaign of pairs reads from and writes to: servers that can be killed, and what is made on them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.connectors.sql.databases import execute
from tests.faults.campaigns import pairs_other_writer
from tests.faults.campaigns.pairs_feeds import Feeds
from tests.faults.campaigns.pairs_other_writer import WRITER
from tests.faults.campaigns.pairs_outputs import AVRO, COUNTS, SINKS, TABLES, UPSERTS
from tests.faults.campaigns.pairs_readers import (
    CATALOG_CLIENT,
    FileReader,
    KafkaReader,
    Reader,
    SqlReader,
    UpsertReader,
    noting_upserts,
)
from tests.faults.campaigns.pairs_stream_readers import AvroReader, MariaDbReader, UpsertKafkaReader
from tests.faults.campaigns.pairs_table_readers import KEPT, OLD, table_reader
from tests.faults.campaigns.pairs_tables import COLUMNS, PARTED_COLUMNS, DeltaPlace, IcebergPlace, place_of
from tests.servers import iceberg_catalog, kafka_broker, mariadb, postgres, schema_registry
from tests.waiting import LONGEST_S

BROKER, DATABASE, REGISTRY, CATALOG, MARIADB = "broker", "database", "registry", "catalog", "MariaDB"
_NEEDS = {
    "Kafka": {BROKER},
    "kafka": {BROKER},
    "upsert-Kafka": {BROKER},
    "Avro": {BROKER, REGISTRY},
    "avro": {BROKER, REGISTRY},
    "PostgreSQL": {DATABASE},
    "upsert": {DATABASE},
    "MariaDB": {MARIADB},
    "iceberg": {DATABASE},
    "Iceberg appends": {CATALOG},
    "Iceberg upserts": {DATABASE},
    "Iceberg overwrites": {CATALOG},
}
"""By sink or source; Iceberg has a REST catalog, and one of SQL in the database."""
_RUNNING: dict[str, Callable[[Path], Any]] = {
    BROKER: kafka_broker.running_broker,
    DATABASE: postgres.running_postgres,
    REGISTRY: schema_registry.running_registry,
    CATALOG: iceberg_catalog.running_catalog,
    MARIADB: mariadb.running_mariadb,
}
_MISSING: dict[str, Callable[[], str | None]] = {
    BROKER: lambda: kafka_broker.missing() or (None if kafka_broker.spark_jars() else "there is no connector of Spark's"),
    DATABASE: postgres.missing,
    REGISTRY: schema_registry.missing,
    CATALOG: iceberg_catalog.missing,
    MARIADB: mariadb.missing,
}


def needed(names: Sequence[str]) -> list[str]:
    """Return the servers that sources and sinks need."""
    return sorted({server for name in names for server in _NEEDS.get(name, ())})


def missing(names: Sequence[str]) -> str | None:
    """Say why sources and sinks can't run here; None where they can."""
    return next((reason for server in needed(names) if (reason := _MISSING[server]()) is not None), None)


@contextmanager
def running(names: Sequence[str], root: Path) -> Iterator[dict[str, Any]]:
    """Run the servers that sources and sinks need, each in a folder of its own."""
    with ExitStack() as stack:
        servers = {}
        for server in needed(names):
            folder = root / server
            folder.mkdir(parents=True)
            servers[server] = stack.enter_context(_RUNNING[server](folder))
        yield servers


class OtherWriter:
    """The process of `pairs_other_writer.py`.

    Args:
        settings: The file with those of the job.
    """

    def __init__(self, settings: Path) -> None:
        self._command = [sys.executable, pairs_other_writer.__file__, str(settings)]
        self._log = settings.with_name("other-writer.log")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def kill(self) -> None:
        """Kill it.

        Raises:
            AssertionError: It has ended by itself.
        """
        if self._process is not None:
            assert self._process.poll() is None, self._log.read_text()
            self._process.kill()
            self._process.wait(LONGEST_S)
            self._process = None


def prepare(
    sources: Sequence[str], sinks: Sequence[str], servers: Mapping[str, Any], root: Path, chance: Any
) -> tuple[Callable[[], list[Reader]], dict[str, Any], Feeds]:
    """Make topics, tables and folders.

    Returns:
        What makes readers; the settings of the job; what feeds it.
    """
    broker, database = servers.get(BROKER), servers.get(DATABASE)
    settings: dict[str, Any] = {
        "sources": list(sources),
        "sinks": [name for name in SINKS if name in sinks],
        "folder_in": str(root / "fed"),
        "folder_out": str(root / "out"),
        "faults": str(root / "faults"),
        "tables": str(root / "tables"),
        "beside": str(root / "beside"),
    }
    for name in ("fed", "out", "tables", "beside"):
        (root / name).mkdir(parents=True)
    if broker is not None:
        settings |= {
            "kafka": broker.address,
            "topic_in": broker.new_topic(2, "in"),
            "topic_avro_in": broker.new_topic(2, "in"),
            "topic_out": broker.new_topic(2, "out"),
            "topic_avro": broker.new_topic(2, "out"),
            "topic_upserts": broker.new_topic(2, "out", cleanup_policy="compact"),
            "topic_of_markers": broker.new_topic(8, "markers"),
        }
    if database is not None:
        settings["database"] = database.url
        _make_tables(database.url)
    if MARIADB in servers:
        settings["mariadb"] = servers[MARIADB].url
        execute(
            servers[MARIADB].url,
            *(f"DROP TABLE IF EXISTS {table}" for table in (UPSERTS, "pystate_commits")),
            f"CREATE TABLE {UPSERTS} (word VARCHAR(50) PRIMARY KEY, n BIGINT NOT NULL)",
        )
    if REGISTRY in servers:
        registry = servers[REGISTRY]
        settings["registry"] = registry.url
        settings["schema_id"] = registry.register(f"{settings['topic_avro_in']}-value", AVRO)
        registry.register(f"{settings['topic_avro']}-value", AVRO)
    settings["catalogs"] = dict(_catalogs(servers, root))
    _make_table_places(settings)
    return lambda: _readers(settings, servers), settings, Feeds(settings, broker, chance)


def _catalogs(servers: Mapping[str, Any], root: Path) -> Iterator[tuple[str, dict[str, str]]]:
    if CATALOG in servers:
        servers[CATALOG].put_tables_into(root / "tables")
        for kind in ("appends", "overwrites"):
            yield kind, {"type": "rest", "uri": servers[CATALOG].url}
    if DATABASE in servers:
        url = servers[DATABASE].url.replace("postgresql://", "postgresql+psycopg://")
        url = f"{url}?connect_timeout=5&application_name={CATALOG_CLIENT}"
        for kind in ("in", "upserts"):  # a catalog of SQL
            yield kind, {"type": "sql", "uri": url, "warehouse": f"file://{root / 'tables'}"}


def _make_tables(url: str) -> None:
    import psycopg

    with psycopg.connect(url) as connection:
        for table in (COUNTS, UPSERTS, "pystate_commits", "iceberg_tables", "iceberg_namespace_properties"):
            connection.execute(f"DROP TABLE IF EXISTS {table}")
        connection.execute(f"CREATE TABLE {COUNTS} (id BIGSERIAL PRIMARY KEY, word TEXT NOT NULL, number BIGINT NOT NULL)")
        connection.execute(f"CREATE TABLE {UPSERTS} (word TEXT PRIMARY KEY, number BIGINT NOT NULL)")
        connection.execute(noting_upserts())


def _make_table_places(settings: dict[str, Any]) -> None:
    for name in settings["sinks"]:
        if name in TABLES and TABLES[name][1] == "overwrites":
            old = [{"source": source, "word": "old", "n": OLD} for source in (*settings["sources"], KEPT)]
            place_of(settings, name).make(PARTED_COLUMNS, *old)
        elif name in TABLES:
            place_of(settings, name).make(COLUMNS)
    for source, place in {"delta": DeltaPlace, "iceberg": IcebergPlace}.items():
        if source in settings["sources"]:
            place(settings, "in").make(COLUMNS)


def _readers(settings: dict[str, Any], servers: Mapping[str, Any]) -> list[Reader]:
    def kafka(kind: type[KafkaReader], topic: str) -> KafkaReader:
        return kind(servers[BROKER], settings[topic], settings["topic_of_markers"])

    made: dict[str, Callable[[], Reader]] = {
        "Kafka": lambda: kafka(KafkaReader, "topic_out"),
        "upsert-Kafka": lambda: kafka(UpsertKafkaReader, "topic_upserts"),
        "Avro": lambda: kafka(AvroReader, "topic_avro"),
        "files": lambda: FileReader(Path(settings["folder_out"])),
        "PostgreSQL": lambda: SqlReader(servers[DATABASE].url),
        "upsert": lambda: UpsertReader(servers[DATABASE].url),
        "MariaDB": lambda: MariaDbReader(servers[MARIADB].url),
    }
    return [made[name]() if name in made else table_reader(name, settings) for name in settings["sinks"]]


@contextmanager
def beside(settings: dict[str, Any], root: Path) -> Iterator[dict[str, OtherWriter]]:
    """Run the other writer, where there are tables."""
    if not any(name in TABLES for name in settings["sinks"]):
        yield {}
        return
    path = root / "beside.json"
    path.write_text(json.dumps(settings))
    writer = OtherWriter(path)
    writer.start()
    try:
        yield {WRITER: writer}
    finally:
        writer.kill()
