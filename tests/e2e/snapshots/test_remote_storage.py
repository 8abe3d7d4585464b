"""Jobs with checkpoints and savepoints on S3 and on HDFS: run, savepoint, cancel, resume; and the tools for savepoints."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.file_system_settings import initialize, put_in_force
from pystate.common.errors import JobCancelledError
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from tests.faults.workload import RECOVERING, Sink, Watched, counting
from tests.servers.hdfs_cluster import missing_libhdfs
from tests.servers.s3_server import SECRET_KEY
from tests.waiting import LONGEST_S

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(params=["s3", "webhdfs", "libhdfs"])
def place(request, spark, monkeypatch):
    """A directory there, and the options that reach it."""
    own = secrets.token_hex(6)
    reason = missing_libhdfs() if request.param == "libhdfs" else None
    if reason is not None:
        pytest.skip(reason)
    if request.param == "s3":
        server = request.getfixturevalue("s3_server")
        yield f"s3://{server.new_bucket()}/{own}", server.options
    else:
        cluster = request.getfixturevalue("hdfs_cluster")
        if request.param == "libhdfs":
            for name, value in cluster.libhdfs_environment.items():
                monkeypatch.setenv(name, value)
                monkeypatch.setitem(spark.sparkContext.environment, name, value)  # of the slots
        reached = {"env.hadoop.conf.dir": str(cluster.conf_dir), "pystate.hdfs.client": request.param}
        yield f"hdfs://{cluster.address}/{own}", reached
    put_in_force(None)


def pystate(*words: str, settings: dict[str, str]) -> str:
    environment = {**os.environ, **settings, "COLUMNS": "200"}
    command = [sys.executable, "-m", "pystate_cli", *words]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    assert SECRET_KEY not in done.stdout + done.stderr
    return done.stdout


def test_a_job_lives_on_remote_storage(run_job, tmp_path, place, capfd):
    root, reached = place
    options = {
        **RECOVERING,
        **reached,
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.dir": f"{root}/checkpoints",
        "execution.checkpointing.savepoint-dir": f"{root}/savepoints",
        "execution.checkpointing.data-inline-threshold": "0 b",
        "execution.checkpointing.incremental": "true",
        "state.backend.type": "rocksdb",
    }
    watched, sink = Watched(tmp_path), Sink()
    watched.add(3)
    job = run_job(counting(watched, sink), options)
    job.wait_for(lambda: set(sink.rows) >= watched.pairs)
    job.wait_for(lambda: job.master.coordinator.statistics()["counts"]["completed"] >= 2)
    latest = job.master.coordinator.statistics()["latest"]["completed"]["external_path"]
    assert latest.startswith(f"{root}/checkpoints/{job.job_id}/chk-")
    savepoint = job.master.savepoint(None, stop=False, cancel=True).result(LONGEST_S).path
    with pytest.raises(JobCancelledError):
        job.result()
    assert savepoint.startswith(f"{root}/savepoints/savepoint-")
    assert SnapshotLocation(savepoint).exists
    assert SECRET_KEY.encode() not in SnapshotLocation(savepoint).read_metadata()

    before = watched.pairs
    watched.add(3)
    again = Sink()
    resumed = run_job(
        counting(watched, again), {**options, "execution.state-recovery.path": savepoint, "parallelism.default": "1"}
    )
    resumed.wait_for(lambda: set(again.rows) >= watched.pairs - before)
    assert set(again.rows) == watched.pairs - before, "what the savepoint holds is not read again"
    resumed.cancel()
    with pytest.raises(JobCancelledError):
        resumed.result()
    captured = capfd.readouterr()
    assert SECRET_KEY not in captured.out + captured.err

    initialize(Configuration(reached))
    folder = tmp_path / "conf"
    folder.mkdir()
    (folder / "flink-conf.toml").write_text("".join(f'"{key}" = "{value}"\n' for key, value in reached.items()))
    settings = {"PYSTATE_CONF_DIR": str(folder), "PYSTATE_HOME": str(tmp_path / "own-home")}
    (listed,) = json.loads(pystate("savepoints", "list", "--json", f"{root}/savepoints", settings=settings))["savepoints"]
    assert listed["path"] == savepoint
    shown = json.loads(pystate("savepoints", "inspect", "--json", savepoint, settings=settings))
    assert shown["path"] == savepoint
    pystate("savepoints", "verify", savepoint, settings=settings)
