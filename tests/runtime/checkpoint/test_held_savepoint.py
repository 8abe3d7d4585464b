"""The savepoint after which a job ends: from the moment it is complete nobody goes back to anything older."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import CorruptSnapshotError, RestoreError
from pystate.common.job_status import JobStatus
from pystate.runtime.checkpoint.retention.held_savepoint import HeldSavepoint
from pystate.runtime.checkpoint.retention.restore_points import RestorePoints
from pystate.runtime.checkpoint.settings.checkpoint_settings import CheckpointSettings
from tests.runtime.checkpoint.harness import JOB
from tests.waiting import LONGEST_S

PERIODIC = {"execution.checkpointing.interval": "1 h"}


def next_driver(tmp_path):
    """What another driver of the job finds."""
    options = {"execution.checkpointing.dir": str(tmp_path / "ck"), **PERIODIC}
    points = RestorePoints(CheckpointSettings.of(Configuration(options), JOB.job_id), JOB.job_id)
    points.recover(lambda _: None)
    return points


def notes(tmp_path):
    return list(Path(tmp_path / "ck").glob("*/taskowned/held-savepoint-*"))


def latest(points):
    snapshot = points.latest()
    return None if snapshot is None else (snapshot.metadata.checkpoint_id, snapshot.starting)


def test_after_a_savepoint_of_a_stop_nobody_goes_back_to_a_checkpoint(bench, tmp_path):
    one = bench(**PERIODIC)
    one.epoch(0)
    one.coordinator.trigger_checkpoint().result(LONGEST_S)
    one.coordinator.trigger_savepoint(None, hold=False).result(LONGEST_S)
    assert latest(next_driver(tmp_path)) == (1, False), "nothing is committed after other savepoints"
    made = one.coordinator.trigger_savepoint(None, hold=True).result(LONGEST_S)
    assert made.heard
    assert one.coordinator.ends_at(one.coordinator.latest_snapshot())
    points = next_driver(tmp_path)
    assert latest(points) == (3, False)
    assert not points.ends_at(points.latest()), "whoever goes on doesn't know that the job was to end"
    one.coordinator.close(JobStatus.FINISHED)
    assert notes(tmp_path) == []


def test_a_checkpoint_that_comes_later_takes_its_place(bench, tmp_path):
    one = bench(**PERIODIC)
    one.epoch(0)
    one.coordinator.trigger_savepoint(None, hold=True).result(LONGEST_S)
    one.coordinator.attempt_over(one.slots)
    one.start_attempt()
    one.epoch(0)
    one.coordinator.trigger_checkpoint().result(LONGEST_S)
    assert latest(next_driver(tmp_path)) == (2, False)
    assert not one.coordinator.ends_at(one.coordinator.latest_snapshot())


def test_a_savepoint_that_never_became_complete_is_none(bench, tmp_path, monkeypatch):
    one = bench(**PERIODIC)
    one.epoch(0)
    one.coordinator.trigger_checkpoint().result(LONGEST_S)

    def full(*_):
        message = "no space"
        raise OSError(message)

    with monkeypatch.context() as patched:
        patched.setattr("pystate.core.snapshot.storage.snapshot_location.SnapshotLocation.write_metadata", full)
        failed = one.coordinator.trigger_savepoint(None, hold=True)
        assert failed.exception(LONGEST_S) is not None
    assert len(notes(tmp_path)) == 1
    assert latest(next_driver(tmp_path)) == (1, False)
    assert latest(one.coordinator._points) == (1, False)


def test_one_that_is_damaged_is_given_up_as_other_snapshots_are(bench, tmp_path):
    one = bench(**PERIODIC)
    one.epoch(0)
    one.coordinator.trigger_checkpoint().result(LONGEST_S)
    one.coordinator.trigger_savepoint(None, hold=True).result(LONGEST_S)
    assert one.coordinator.give_up_latest(CorruptSnapshotError("A file is torn."))
    assert latest(one.coordinator._points) == (1, False)


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: b"", lambda data: data[:20] + b"x" + data[21:]])
def test_a_damaged_note_is_refused(bench, tmp_path, damage):
    one = bench(**PERIODIC)
    one.epoch(0)
    one.coordinator.trigger_savepoint(None, hold=True).result(LONGEST_S)
    (note,) = notes(tmp_path)
    note.write_bytes(damage(note.read_bytes()))
    with pytest.raises(CorruptSnapshotError):
        next_driver(tmp_path)


def test_a_note_under_another_name_is_refused(bench, tmp_path):
    one = bench(**PERIODIC)
    one.epoch(0)
    one.coordinator.trigger_savepoint(None, hold=True).result(LONGEST_S)
    (note,) = notes(tmp_path)
    note.rename(note.with_name("held-savepoint-9-abcdef01"))
    with pytest.raises(CorruptSnapshotError, match="savepoint 9"):
        next_driver(tmp_path)


def test_a_note_of_a_newer_version_is_refused():
    held = HeldSavepoint(3, "file:/a")
    assert HeldSavepoint.from_bytes(held.to_bytes()) == held
    newer = bytearray(held.to_bytes()[:-4])
    newer[9] = 2
    with pytest.raises(RestoreError, match="version 2"):
        HeldSavepoint.from_bytes(bytes(newer) + struct.pack(">I", zlib.crc32(bytes(newer))))
