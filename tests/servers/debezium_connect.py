"""Debezium's connector to PostgreSQL in a Kafka Connect of one process, from the jars that `make servers` brings."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import requests

from tests.servers.nginx import free_port
from tests.servers.places import SERVERS
from tests.servers.postgres import PASSWORD, USER, Postgres
from tests.servers.started_services import wait_until_it_answers
from tests.waiting import LONGEST_S, wait_until

JARS = SERVERS / "debezium"
NAME = "changes"
"""Of the connector, and before the names of its topics."""
_JAVA = ("java", "-Xmx300m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
_WORKER = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false",
    "offset.flush.interval.ms": "2000",
    "plugin.discovery": "only_scan",
    "topic.creation.enable": "true",
}
_CONNECTOR = {
    "name": NAME,
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "tasks.max": "1",
    "plugin.name": "pgoutput",
    "topic.prefix": NAME,
    "database.hostname": "127.0.0.1",
    "database.user": USER,
    "database.password": PASSWORD,
    "database.dbname": "postgres",
    "topic.creation.default.replication.factor": "1",
    "topic.creation.default.partitions": "2",
    "errors.max.retries": "-1",
    "retriable.restart.connector.wait.ms": "500",
}


def missing() -> str | None:
    """Say why there is none here; None where there is one."""
    if not (JARS / ".complete").is_file():
        return "there is no Kafka Connect with Debezium here: run `make servers`"
    return None if shutil.which("java") else "there is no Java here"


class DebeziumConnect:
    """A worker that can be killed: started again, it goes on from the offsets that it has kept last.

    Args:
        folder: Its own.
        address: Of the broker.
        database: What it reads; with `wal_level = logical`.
        settings: Further ones: those that name a converter are the worker's, others the connector's.
    """

    def __init__(self, folder: Path, address: str, database: Postgres, settings: Mapping[str, str]) -> None:
        port = free_port()
        self._url = f"http://127.0.0.1:{port}/connectors/{NAME}/status"
        self._log, self._folder = folder / "connect.log", folder
        of_worker = {key: value for key, value in settings.items() if ".converter" in key or key.startswith("offset.")}
        of_connector = {key: value for key, value in settings.items() if key not in of_worker}
        places = {
            "bootstrap.servers": address,
            "listeners": f"http://127.0.0.1:{port}",
            "offset.storage.file.filename": str(folder / "offsets"),
        }
        self._files = (folder / "worker.properties", folder / "connector.properties")
        database_port = {"database.port": str(database.port)}
        for path, lines in zip(
            self._files, ({**_WORKER, **places, **of_worker}, {**_CONNECTOR, **database_port, **of_connector}), strict=True
        ):
            path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until the connector's task runs."""
        with self._log.open("ab") as log:
            command = [*_JAVA, "-cp", f"{JARS}/*", "org.apache.kafka.connect.cli.ConnectStandalone", *map(str, self._files)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder)
        wait_until_it_answers(self._url, self._process, self._log)
        wait_until(lambda: self.states() == ["RUNNING"])

    def states(self) -> list[str]:
        """Return the states of the connector's tasks."""
        return [task["state"] for task in requests.get(self._url, timeout=30).json()["tasks"]]

    def keeps_changes(self) -> bool:
        """Return whether the offset that it has kept last is that of a change: killed now, it reads no other snapshot."""
        path = self._folder / "offsets"
        kept = path.read_bytes() if path.exists() else b""
        return b'"lsn"' in kept and b'"snapshot"' not in kept

    def kill(self) -> None:
        """Kill it as kill -9 does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(LONGEST_S)
            self._process = None


@contextmanager
def running_connect(
    folder: Path, address: str, database: Postgres, settings: Mapping[str, str] | None = None
) -> Iterator[DebeziumConnect]:
    """Run one."""
    connect = DebeziumConnect(folder, address, database, settings or {})
    try:
        connect.start()
        yield connect
    finally:
        with suppress(ProcessLookupError):
            connect.kill()
