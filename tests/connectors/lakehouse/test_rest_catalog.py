"""Commits to a REST catalog of Iceberg that are lost on the way, or whose answers are: each row comes once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import NoSuchTableError, ServiceUnavailableError

from pystate.common.errors import ExternalSystemError, PystateError
from pystate.connectors.iceberg.iceberg_catalog import IcebergCatalog
from tests.connectors.lakehouse.tables import IcebergTablesByRest
from tests.connectors.lakehouse.test_joint_commits import Job, words
from tests.servers.iceberg_catalog import FaultyWay, IcebergRestServer, iceberg_server  # noqa: F401 - a fixture

AWAY = {
    "rest": {"type": "rest", "uri": "http://127.0.0.1:1"},
    "sql": {"type": "sql", "uri": "postgresql+psycopg://127.0.0.1:1/none?connect_timeout=5", "warehouse": "file:///none"},
}


@pytest.mark.parametrize("kind", AWAY)
def test_a_catalog_that_is_away_is_no_fault_of_the_program(kind):
    with pytest.raises(ExternalSystemError, match="The catalog of Iceberg's tables doesn't answer: ") as failed:
        IcebergCatalog("c", AWAY[kind]).load_table("db.t")
    assert failed.value.where == "catalog c"


@pytest.mark.parametrize(
    ("error", "is_away"), [(ServiceUnavailableError, True), (NoSuchTableError, False), (OSError, False)]
)
def test_a_catalog_that_is_overloaded_is_none_either(tmp_path, monkeypatch, error, is_away):
    def fail(*_):
        raise error("no")

    catalog = IcebergCatalog("c", {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}"})
    monkeypatch.setattr(catalog.open(), "load_table", fail)
    with pytest.raises(ExternalSystemError if is_away else error):
        catalog.load_table("db.t")


def lost(_send: Any, _server: Any) -> None:
    """The catalog never sees the commit."""


def unanswered(send: Any, _server: Any) -> None:
    """The catalog commits, and its answer is lost."""
    assert send().ok


def refused(_send: Any, _server: Any) -> int:
    """The catalog has no time."""
    return 503


def committed_and_failed(send: Any, _server: Any) -> int:
    """The catalog commits, and a gateway before it says that it took too long."""
    assert send().ok
    return 504


def killed_before(_send: Any, server: IcebergRestServer) -> None:
    """The catalog is killed before it sees the commit."""
    server.kill()
    server.start()


def killed_after(send: Any, server: IcebergRestServer) -> None:
    """The catalog is killed after it has committed."""
    assert send().ok
    server.kill()
    server.start()


FAULTS = [lost, unanswered, refused, committed_and_failed, killed_before, killed_after]


@pytest.fixture
def way(iceberg_server: IcebergRestServer) -> Iterator[FaultyWay]:  # noqa: F811
    way = FaultyWay(iceberg_server.url)
    yield way
    way.close()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_commit_that_fails_is_made_once_by_the_next_attempt(tmp_path: Path, iceberg_server, way, fault):  # noqa: F811
    tables = IcebergTablesByRest(tmp_path, iceberg_server, way.url)
    job = Job(tables, 2)
    job.write("a", "b", "c")
    taken = job.snapshot(1)
    way.faults.append(lambda send: fault(send, iceberg_server))
    try:
        job.complete(1)
    except PystateError:
        job = Job(tables, 3, 1, taken)
    assert not way.faults
    assert words(tables) == "abc"

    job.write("d")
    job.snapshot(2)
    job.complete(2)
    assert words(tables) == "abcd"
    assert len(tables.table().metadata.snapshots) == 2
