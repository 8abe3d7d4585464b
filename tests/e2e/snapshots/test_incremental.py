"""Incremental checkpoints through jobs on real Spark: a slot dies, the job is rescaled from a retained checkpoint."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from pystate.common.errors import JobCancelledError, RestoreError
from pystate.core.snapshot.metadata_file import read_metadata
from pystate.core.snapshot.storage.local_copies import local_copies_folder
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from tests.engines import on_both_engines
from tests.faults.processes import kill, needs_proc
from tests.faults.workload import RECOVERING, Sink, Watched, counting, state_in
from tests.waiting import files_below, wait_until

pytestmark = [needs_proc, pytest.mark.timeout(600)]

INCREMENTAL = {
    **RECOVERING,
    "state.backend.type": "rocksdb",
    "execution.checkpointing.incremental": "true",
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    "execution.checkpointing.data-inline-threshold": "0 b",
}


def wait_for_checkpoint(job):
    seen = job.master.coordinator.statistics()["counts"]["completed"]
    job.wait_for(lambda: job.master.coordinator.statistics()["counts"]["completed"] > seen)


def kill_a_slot(job):
    before = job.status["attempt"]
    kill(wait_until(lambda: job.master.slot_pids)[1])
    job.wait_for(lambda: job.status["attempt"] > before and job.status["state"] == "RUNNING")


def cancelled(job):
    job.cancel()
    with pytest.raises(JobCancelledError):
        job.result()


def shared_files(directory: Path) -> set[str]:
    return {str(path) for path in (directory / "shared").iterdir()}


def retained(directory: Path) -> tuple[str, set[str]]:
    """Return the one checkpoint that a job has left, and the shared files it refers to."""
    (snapshot,) = directory.glob("chk-*")
    location = SnapshotLocation(str(snapshot))
    files = read_metadata(location.read_metadata(), location.uri).shared_files
    return str(snapshot), {file.handle.path.removeprefix("file:") for file in files}


@pytest.mark.slow
@on_both_engines
def test_a_job_with_incremental_checkpoints_survives_and_is_rescaled_from_one(run_job, tmp_path):
    watched, sink = Watched(tmp_path), Sink()
    watched.add(6)
    local = {"execution.checkpointing.local-backup.enabled": "true"}
    job = run_job(counting(watched, sink), {**INCREMENTAL, **local})
    job.wait_for(lambda: set(sink.rows) >= watched.pairs)
    wait_for_checkpoint(job)
    wait_for_checkpoint(job)
    latest = job.master.coordinator.statistics()["latest"]["completed"]
    assert 0 < latest["checkpointed_size"] < latest["state_size"], "of an idle job only the private files are written"
    copies = Path(local_copies_folder(None, job.job_id))
    # at any moment the job makes the next copy and deletes the one before
    wait_until(lambda: any(".sst-" in path.name for path in files_below(copies)))
    watched.add(6)
    kill_a_slot(job)
    job.wait_for(lambda: set(sink.rows) >= watched.pairs)
    wait_for_checkpoint(job)
    cancelled(job)
    wait_until(lambda: not copies.exists())
    directory = tmp_path / "checkpoints" / job.job_id
    path, referred = retained(directory)
    assert shared_files(directory) == referred, "no orphan is left, and nothing is missing"

    watched.add(3)
    other = run_job(
        counting(watched, sink), {**INCREMENTAL, "parallelism.default": "3", "execution.state-recovery.path": path}
    )
    other.wait_for(lambda: set(sink.rows) >= watched.pairs)
    wait_for_checkpoint(other)
    assert shared_files(directory) == referred, "a job that was started from a checkpoint deletes none of its files"
    shutil.rmtree(directory)
    watched.add(3)
    kill_a_slot(other)
    job_end = other.savepoint(tmp_path / "savepoints")
    other.wait_for(lambda: set(sink.rows) >= watched.pairs)
    final = other.savepoint(tmp_path / "savepoints")
    cancelled(other)
    assert os.path.exists(job_end.removeprefix("file:"))
    assert state_in(final) == dict(watched.words), "state is neither lost nor doubled"
    assert set(sink.rows) == watched.pairs
    directory = tmp_path / "checkpoints" / other.job_id
    path, referred = retained(directory)
    assert shared_files(directory) == referred

    refused = run_job(counting(watched, sink), {"state.backend.type": "hashmap", "execution.state-recovery.path": path})
    with pytest.raises(RestoreError, match="incremental") as raised:
        refused.result()
    assert "take a savepoint" in str(raised.value)
    assert refused._master is None, "it is refused before Spark"
    assert not [name for name in os.listdir(tempfile.gettempdir()) if name == os.path.basename(copies)]
