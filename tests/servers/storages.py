"""The storages that tests share: fixtures of `tests/conftest.py`, as each conftest that imports one would have its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # few processes need them
    from pathlib import Path

    from tests.servers.hdfs_cluster import HdfsCluster
    from tests.servers.kdc import Kdc
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


@pytest.fixture(scope="session")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    """One realm for all tests of a process."""
    from tests.servers.kdc import running_kdc

    with running_kdc(tmp_path_factory.mktemp("kdc")) as running:
        yield running


@pytest.fixture(scope="session")
def secured_hdfs(kdc: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The HADOOP_CONF_DIR of one cluster with Kerberos for all tests of a process."""
    from tests.servers.hdfs_cluster import missing
    from tests.servers.secured_hdfs import running_secured_hdfs

    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    with running_secured_hdfs(tmp_path_factory.mktemp("secured-hdfs"), kdc) as conf_dir:
        yield conf_dir
