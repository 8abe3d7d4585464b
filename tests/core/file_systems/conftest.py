"""Places on each kind of filesystem that snapshots may lie on."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.file_system_settings import SETTINGS_VARIABLE, initialize, put_in_force
from tests.servers.hdfs_cluster import HdfsCluster, missing_libhdfs
from tests.servers.s3_server import S3Server


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test begins with the defaults, and with nothing of the machine's own credentials."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "HADOOP_")) or name == "CLASSPATH":
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.delenv(SETTINGS_VARIABLE, raising=False)
    put_in_force(None)
    yield
    put_in_force(None)


@dataclass
class Place:
    """A directory of the test's own.

    Attributes:
        kind: local, memory, s3, webhdfs or libhdfs.
        uri: The directory.
        s3: The server, where it is S3.
    """

    kind: str
    uri: str
    s3: S3Server | None = None

    @property
    def bucket(self) -> str:
        return self.uri.split("/")[2]


def make_place(kind: str, request: pytest.FixtureRequest) -> Place:
    own = secrets.token_hex(6)
    if kind == "local":
        return Place(kind, f"file:{request.getfixturevalue('tmp_path')}/{own}")
    if kind == "memory":
        return Place(kind, f"memory://{own}")
    if kind == "s3":
        server = request.getfixturevalue("s3_server")
        initialize(Configuration(server.options))
        return Place(kind, f"s3://{server.new_bucket()}/some where/{own}", server)
    reason = missing_libhdfs() if kind == "libhdfs" else None
    if reason is not None:
        pytest.skip(reason)
    cluster: HdfsCluster = request.getfixturevalue("hdfs_cluster")
    if kind == "libhdfs":
        for name, value in cluster.libhdfs_environment.items():
            request.getfixturevalue("monkeypatch").setenv(name, value)
    initialize(Configuration({"env.hadoop.conf.dir": str(cluster.conf_dir), "pystate.hdfs.client": kind}))
    return Place(kind, f"hdfs://{cluster.address}/some where/{own}")


@pytest.fixture(params=["local", "memory", "s3", "webhdfs", "libhdfs"])
def place(request: pytest.FixtureRequest) -> Place:
    """A directory on each of them."""
    return make_place(request.param, request)


@pytest.fixture(params=["local", "s3", "webhdfs", "libhdfs"])
def shared_place(request: pytest.FixtureRequest) -> Place:
    """A directory on each of them that other processes see, too."""
    return make_place(request.param, request)


@pytest.fixture
def s3_place(request: pytest.FixtureRequest) -> Place:
    return make_place("s3", request)


@pytest.fixture(params=["webhdfs", "libhdfs"])
def hdfs_place(request: pytest.FixtureRequest) -> Place:
    """A directory on HDFS, reached in each way."""
    return make_place(request.param, request)
