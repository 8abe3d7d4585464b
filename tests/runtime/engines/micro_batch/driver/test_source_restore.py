"""Where a query goes on after a snapshot: which logs, which batch, which epoch number."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pystate.common.errors import RestoreError
from pystate.core.snapshot.handles.handles import ByteStreamStateHandle
from pystate.core.snapshot.starting_snapshot import Snapshot
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.runtime.engines.micro_batch.driver.running_epoch import RunningEpoch
from pystate.runtime.engines.micro_batch.driver.source_restore import SourceRestore
from pystate.runtime.engines.micro_batch.spark.spark_checkpoint import SparkSource
from pystate.runtime.engines.micro_batch.spark.spark_source_cut import SparkSourceCut
from pystate.runtime.plan.job_plan import JobPlan
from tests.runtime.checkpoint.harness import FakeSpark
from tests.runtime.execution.test_operator_state_restore import snapshot_of, tasks

JOB_ID = "a" * 32


@pytest.fixture
def spark(tmp_path):
    return FakeSpark(tmp_path)


def restore(*uids: str) -> SourceRestore:
    sources = [SparkSource(uid, 0, index) for index, uid in enumerate(uids)]
    return SourceRestore(JobPlan([], 1, levels=[tasks(1)]), sources, allow_non_restored=False)


def snapshot_at(spark: FakeSpark, batch: int) -> Snapshot:
    spark.plan(batch)
    spark.commit(batch)
    cut = SparkSourceCut.after(spark.directory, batch)
    assert cut.settle()
    position = cut.position(ByteStreamStateHandle(cut.archive()))
    metadata = replace(snapshot_of(tasks(2)).metadata, source_position=position)
    return Snapshot(SnapshotLocation("file:/nowhere/chk-5"), metadata, starting=False)


def test_a_start_from_nothing_begins_after_the_number_it_is_given():
    nothing = restore("source").nothing(4)
    assert (nothing.spark_files, nothing.batch_id, nothing.epoch) == ({}, -1, 4)


def test_a_snapshot_gives_its_logs_and_its_batch_and_the_job_the_epoch(spark):
    found = restore("source").from_snapshot(snapshot_at(spark, 3), 17, JOB_ID)
    assert (found.batch_id, found.epoch) == (3, 17)
    assert {"offsets/3", "commits/3", "metadata"} <= found.spark_files.keys()


def test_another_jobs_snapshot_is_a_new_query_to_sinks(spark):
    snapshot = snapshot_at(spark, 3)
    own = snapshot.metadata.job_id
    assert restore("source").from_snapshot(snapshot, 3, own).keep_query_id
    assert not restore("source").from_snapshot(snapshot, 3, "f" * 32).keep_query_id


def test_an_epoch_that_is_run_again_keeps_its_number_and_its_rows(spark):
    snapshot = snapshot_at(spark, 3)
    spark.plan(4)
    running = RunningEpoch(9, 4, snapshot.location.uri, spark.directory.capture_running(4))
    found = restore("source").from_snapshot(snapshot, 3, "f" * 32, running)
    assert (found.batch_id, found.epoch, found.keep_query_id) == (3, 8, True)
    assert "offsets/4" in found.spark_files
    assert (found.again, found.clock, found.rows_clock) == (True, None, None), "an older version wrote no clock"
    of_now = restore("source").from_snapshot(snapshot, 3, "f" * 32, replace(running, rows_clock=99))
    assert (of_now.again, of_now.rows_clock) == (True, 99)


def test_an_epoch_of_the_clock_is_run_again_after_the_batch_of_the_snapshot(spark):
    snapshot = snapshot_at(spark, 3)
    running = RunningEpoch(9, 3, snapshot.location.uri, {}, clock=77)
    found = restore("source").from_snapshot(snapshot, 3, JOB_ID, running)
    assert (found.batch_id, found.epoch, found.clock, found.with_state) == (3, 8, 77, True)
    assert not found.again
    assert "offsets/4" not in found.spark_files
    first = restore("source").nothing(4, RunningEpoch(9, -1, None, {}, clock=78))
    assert (first.epoch, first.clock, first.with_state) == (8, 78, False)


def test_a_source_that_the_job_has_no_more_is_refused(spark):
    with pytest.raises(RestoreError, match="no source 'source'"):
        restore("another").from_snapshot(snapshot_at(spark, 3), 3, JOB_ID)
