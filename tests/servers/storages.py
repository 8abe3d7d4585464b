"""The storages that tests share: fixtures of `tests/conftest.py`, as each conftest that imports one would have its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # few processes need them
    from tests.servers.hdfs_cluster import HdfsCluster
    from tests.servers.s3_server import S3Server


@pytest.fixture(scope="session")
def hdfs_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsCluster]:
    """One cluster for all tests of a process."""
    from tests.servers.hdfs_cluster import missing, running_hdfs_cluster

    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    with running_hdfs_cluster(tmp_path_factory.mktemp("hdfs")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """One server for all tests of a process; each test takes a bucket of its own."""
    from tests.servers.s3_server import running_s3_server

    with running_s3_server() as server:
        yield server
