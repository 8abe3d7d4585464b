"""A claimed checkpoint and a native savepoint through jobs on real Spark."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pystate.common.errors import RestoreError
from pystate.core.snapshot.metadata import SavepointFormatType
from pystate.core.snapshot.storage.ownership import claimant
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from tests.e2e.snapshots.test_incremental import (
    INCREMENTAL,
    cancelled,
    kill_a_slot,
    retained,
    shared_files,
    wait_for_checkpoint,
)
from tests.faults.processes import needs_proc
from tests.faults.workload import Sink, Watched, counting, state_in
from tests.waiting import LONGEST_S

pytestmark = [needs_proc, pytest.mark.timeout(600)]


def state_files(directory: Path) -> set[str]:
    """The shared files in a job's folder, without the notes of who uses them."""
    return {name for name in shared_files(directory) if not Path(name).name.startswith("use-")}


@pytest.mark.slow
def test_a_job_owns_the_checkpoint_that_it_claims_and_goes_on_with_its_files(run_job, tmp_path):
    watched, sink = Watched(tmp_path), Sink()
    watched.add(6)
    first = run_job(counting(watched, sink), INCREMENTAL)
    first.wait_for(lambda: set(sink.rows) >= watched.pairs)
    wait_for_checkpoint(first)
    cancelled(first)
    old = tmp_path / "checkpoints" / first.job_id
    path, referred = retained(old)

    claiming = {"execution.state-recovery.path": path, "execution.state-recovery.claim-mode": "CLAIM"}
    second = run_job(counting(watched, sink), {**INCREMENTAL, **claiming, "execution.checkpointing.interval": "1 h"})
    second.wait_for(lambda: second.status["state"] == "RUNNING")
    assert claimant(SnapshotLocation(path)) == second.job_id
    rival = run_job(counting(watched, Sink()), {**INCREMENTAL, **claiming})
    with pytest.raises(RestoreError, match=f"Job {second.job_id} has claimed"):
        rival.result()
    kill_a_slot(second)
    assert Path(path).exists(), "it is all there is to go back to"
    watched.add(3)
    second.wait_for(lambda: set(sink.rows) >= watched.pairs)
    second.master.coordinator.trigger_checkpoint().result(LONGEST_S)
    latest, named = retained(tmp_path / "checkpoints" / second.job_id)
    assert named & referred, "it goes on with the old files"
    assert not Path(path).exists(), "its own checkpoint has taken the place"
    assert state_files(old) == named & referred, "what nobody needs is gone"
    assert not (set(referred) - named) & state_files(old)
    kill_a_slot(second)
    watched.add(3)
    second.wait_for(lambda: set(sink.rows) >= watched.pairs)
    final = second.savepoint(tmp_path / "savepoints")
    cancelled(second)
    assert state_in(final) == dict(watched.words)
    assert Path(latest).exists()


@pytest.mark.slow
def test_a_native_savepoint_is_moved_and_resumed_at_another_parallelism(run_job, tmp_path):
    watched, sink = Watched(tmp_path), Sink()
    watched.add(6)
    job = run_job(counting(watched, sink), INCREMENTAL)
    job.wait_for(lambda: set(sink.rows) >= watched.pairs)
    wait_for_checkpoint(job)
    taken = job.master.savepoint(None, stop=True, cancel=False, format=SavepointFormatType.NATIVE).result(LONGEST_S)
    job.result()
    assert taken.metadata.format is SavepointFormatType.NATIVE
    assert taken.metadata.shared_files == []
    old = taken.path.removeprefix("file:")
    moved = str(shutil.move(old, tmp_path / "elsewhere"))
    shutil.rmtree(tmp_path / "checkpoints")
    assert state_in(moved) == dict(watched.words)

    watched.add(3)
    starting = {"execution.state-recovery.path": moved, "state.backend.type": "rocksdb"}
    wider = run_job(counting(watched, sink), {**starting, "parallelism.default": "3"})
    wider.wait_for(lambda: set(sink.rows) >= watched.pairs)
    final = wider.savepoint(tmp_path / "savepoints")
    cancelled(wider)
    assert state_in(final) == dict(watched.words)
    assert set(sink.rows) == watched.pairs

    refused = run_job(counting(watched, sink), {**starting, "state.backend.type": "hashmap"})
    with pytest.raises(RestoreError, match="own files of the rocksdb state backend .* the hashmap state backend can't"):
        refused.result()
    assert refused._master is None, "it is refused before Spark"
