"""Files that a checkpoint under way may still name, one case after the other; what follows of many is in the model."""

from __future__ import annotations

import pytest

from pystate.common.errors import SnapshotError
from pystate.common.job_status import JobStatus
from pystate.core.snapshot.metadata import SavepointFormatType
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from tests.runtime.checkpoint.shared_files import ModelJob, write_all


@pytest.fixture
def job(tmp_path):
    made = []

    def make(concurrent=1, retained=1):
        names = {"max-concurrent-checkpoints": concurrent, "num-retained": retained}
        made.append(ModelJob(tmp_path, {f"execution.checkpointing.{name}": str(value) for name, value in names.items()}))
        return made[-1]

    yield make
    for one in made:
        one.coordinator.close(JobStatus.CANCELED)


def complete(job, *, full=False):
    """Take a checkpoint of which no slot is notified."""
    write_all(job)
    future = job.trigger(full=full)
    while job.slots.uploads:
        job.upload()
    return future.result(0).metadata


def names(metadata):
    return {file.handle.path for file in metadata.shared_files}


def test_a_full_checkpoint_that_slots_have_not_heard_of_takes_no_file_from_the_next_one(job):
    one = job()
    first = complete(one)
    full = complete(one, full=True)
    assert not names(first) & names(full)
    after = complete(one)
    assert one.missing() == []
    assert names(full) < names(after), "the barrier has told the slots of it"


def test_the_next_checkpoint_refers_to_all_that_the_last_one_holds_though_no_notification_came(job):
    one = job()
    for _ in range(5):
        latest = complete(one)
    assert len(names(latest)) == 10
    assert len({path.rsplit("-", 4)[-4] for path in names(latest)}) == 5, "each file was written by the first that had it"


def test_a_full_checkpoint_leaves_the_files_of_one_that_is_under_way_beside_it(job):
    one = job(concurrent=2)
    first = complete(one)
    full = one.trigger(full=True)
    beside = one.trigger()
    for _ in range(2):
        one.upload()
    assert full.done() and not beside.done()
    assert one.files() >= {path.rsplit("/", 1)[-1] for path in names(first)}
    one.complete_all()
    assert names(first) <= names(beside.result(0).metadata)
    assert one.missing() == []
    complete(one)
    assert one.files() == one.named(), "what was held for it is gone in the end"


def test_of_a_file_that_two_checkpoints_have_written_the_one_that_stays_is_referred_to(job):
    one = job(concurrent=3)
    write_all(one)
    futures = [one.trigger(full=full) for full in (False, True, False)]
    one.complete_all()
    assert [future.done() for future in futures] == [True] * 3
    assert one.missing() == []
    complete(one)
    assert one.missing() == []


def test_a_checkpoint_that_cannot_be_deleted_keeps_the_files_that_others_have_written_again(job, monkeypatch):
    def refuse(location):
        message = "not allowed"
        raise SnapshotError(message)

    monkeypatch.setattr(SnapshotLocation, "discard", refuse)
    one = job(concurrent=3)
    one.coordinator.trigger_savepoint(None, hold=False, format=SavepointFormatType.NATIVE)
    one.pump()
    for full in (False, True, False, False):
        write_all(one)
        one.trigger(full=full)
    one.complete_all()
    assert "chk-2" in one.snapshots()
    assert one.missing() == []
    monkeypatch.undo()
    complete(one)
    complete(one)
    assert one.files() == one.named(), "they go with it"


def test_what_a_failed_checkpoint_names_stays_as_long_as_it_can_be_taken_for_a_complete_one(job, monkeypatch):
    one = job()
    first = complete(one)
    write, broken = SnapshotLocation.write_metadata, []

    def answers_too_late(location, data):
        write(location, data)
        if broken:
            message = "no answer"
            raise SnapshotError(message)

    discard = SnapshotLocation.discard

    def refuse(location):
        if location.uri.endswith("chk-2"):
            message = "not allowed"
            raise SnapshotError(message)
        discard(location)

    with monkeypatch.context() as storage:
        storage.setattr(SnapshotLocation, "write_metadata", answers_too_late)
        storage.setattr(SnapshotLocation, "discard", refuse)
        broken.append(True)
        write_all(one)
        failed = one.trigger()
        one.complete_all()
        with pytest.raises(Exception, match="no answer"):
            failed.result(0)
        broken.clear()
        complete(one, full=True)
        assert set(one.snapshots()) == {"chk-2", "chk-3"}
        assert one.missing() == []
        one.restart(0)
        assert one.missing() == []
    complete(one)
    assert set(one.snapshots()) == {"chk-4"}
    assert one.files() == one.named()
    assert not names(first) & {f"file:{one.folder}/shared/{name}" for name in one.files()}
