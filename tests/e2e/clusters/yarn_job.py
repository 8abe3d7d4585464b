"""A job on a real YARN, with checkpoints on its HDFS, by the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.file_system_settings import FileSystemSettings, put_in_force
from tests.e2e.clusters.counting_job import CountingJob
from tests.faults.processes import command_of, is_slot, parent
from tests.servers import yarn_cluster
from tests.servers.yarn_cluster import YarnCluster, running_yarn_cluster

_DAEMON = "pyspark.daemon"


@contextmanager
def known_yarn_cluster(root: Path, **options: Any) -> Iterator[YarnCluster]:
    """Run a YARN, which this process and the commands that it calls know by HADOOP_CONF_DIR; skip the test without one."""
    reason = yarn_cluster.missing()
    if reason is not None:
        pytest.skip(reason)
    with running_yarn_cluster(root, **options) as cluster, pytest.MonkeyPatch.context() as patch:
        for name, value in cluster.environment.items():
            patch.setenv(name, value)
        put_in_force(FileSystemSettings.of(Configuration({"env.hadoop.conf.dir": str(cluster.conf_dir)})))
        try:
            yield cluster
        finally:
            put_in_force(None)


class YarnJob(CountingJob):
    """A job that counts the words in a folder, on YARN.

    Args:
        root: For its files.
        cluster: The YARN.
        engine: What runs it.
        python: What runs its executors' Python, as options of `run`.
        more: See `CountingJob`.
    """

    def __init__(
        self,
        root: Path,
        cluster: YarnCluster,
        engine: str = "micro-batch",
        python: tuple[object, ...] = (),
        **more: Any,
    ) -> None:
        self.cluster = cluster
        options = {
            "pystate.spark.master": "yarn",
            "spark.yarn.jars": f"local:{yarn_cluster.SPARK_JARS}/*",
            "spark.yarn.am.memory": "512m",
            "spark.executor.memoryOverhead": "1g",
            "execution.engine": engine,
        }
        super().__init__(root, options, f"hdfs://{cluster.hdfs.address}", python, "file://", **more)

    def python_workers(self, *, slots: bool) -> list[int]:
        """Return the processes of its slots, or those of its other Python workers, which short tasks and relays run in."""
        forked = [pid for pid in self.cluster.containers() if _DAEMON in command_of(pid) and _DAEMON in parent(pid)]
        return [pid for pid in forked if is_slot(pid) is slots]

    def end(self) -> str:
        path = super().end()
        left = self.cluster.hdfs.names_in("/") - {"checkpoints", "savepoints", "user"}
        assert not left, "Spark's own files of the driver are on its machine"
        return path
