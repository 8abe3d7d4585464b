"""Commits to a REST catalog of Iceberg that are lost on the way, or whose answers are: each row comes once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pystate.common.errors import PystateError
from tests.connectors.lakehouse.tables import IcebergTablesByRest
from tests.connectors.lakehouse.test_joint_commits import Job, words
from tests.servers.iceberg_catalog import FaultyWay, IcebergRestServer, iceberg_server  # noqa: F401 - a fixture


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
