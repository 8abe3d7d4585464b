from __future__ import annotations

from pathlib import Path

import pytest

from pystate.common.errors import CorruptSnapshotError, SnapshotError
from pystate.core.snapshot.metadata import CheckpointMetadata, CheckpointType, SavepointFormatType
from pystate.core.snapshot.metadata_file import write_metadata
from pystate.core.snapshot.storage.checkpoint_storage_access import CheckpointStorageAccess
from pystate.runtime.checkpoint.checkpoint_recovery import DurableCheckpointIds, recover_checkpoints
from tests.faults.faulty_storage import FAULTS
from tests.faults.injection import Action, Faults, Step

JOB, OTHER = "a" * 32, "b" * 32


class Storage:
    """The checkpoints that a dead driver has left."""

    def __init__(self, root: Path, *, create_subdir: bool = True, scheme: str = "") -> None:
        self.storage = CheckpointStorageAccess(f"{scheme}{root}", None, JOB, create_subdir)
        self.directory = root / JOB if create_subdir else root
        self.said: list[str] = []

    def complete(self, checkpoint_id: int, job_id: str = JOB) -> Path:
        metadata = CheckpointMetadata(
            checkpoint_id=checkpoint_id,
            checkpoint_type=CheckpointType.CHECKPOINT,
            format=SavepointFormatType.CANONICAL,
            timestamp_ms=checkpoint_id,
            job_id=job_id,
            job_name="count",
            epoch=checkpoint_id,
            parallelism=2,
            max_parallelism=128,
            operators=[],
            source_position=None,
            parent=None,
            configuration={},
            pystate_version="0.1.0",
            spark_version="4.3.0",
        )
        location = self.storage.checkpoint_location(checkpoint_id)
        location.create()
        location.write_metadata(write_metadata(metadata))
        return self.directory / f"chk-{checkpoint_id}"

    def begin(self, checkpoint_id: int) -> Path:
        self.storage.checkpoint_location(checkpoint_id).create()
        path = self.directory / f"chk-{checkpoint_id}"
        (path / ".state.inprogress").write_bytes(b"half")
        return path

    def recover(self) -> tuple[list[int], int]:
        recovered = recover_checkpoints(self.storage, JOB, self.said.append)
        return [one.checkpoint_id for one in recovered.completed], recovered.highest_id


def damage(snapshot: Path) -> None:
    data = bytearray((snapshot / "_metadata").read_bytes())
    data[len(data) // 2] ^= 1
    (snapshot / "_metadata").write_bytes(data)


def test_a_job_that_never_had_a_checkpoint_recovers_none(tmp_path):
    assert Storage(tmp_path).recover() == ([], 0)
    assert recover_checkpoints(CheckpointStorageAccess(None, None, JOB), JOB, print).completed == []


def test_all_retained_checkpoints_are_found_the_oldest_first_by_number(tmp_path):
    left = Storage(tmp_path)
    for checkpoint_id in (9, 10, 8):
        left.complete(checkpoint_id)
    (left.directory / "shared").mkdir()
    (left.directory / "chk-x").mkdir()
    assert left.recover() == ([8, 9, 10], 10)


def test_what_never_completed_is_deleted_and_its_id_is_not_given_again(tmp_path):
    left = Storage(tmp_path)
    left.complete(3)
    begun = left.begin(4)
    assert left.recover() == ([3], 4)
    assert not begun.exists()


def test_a_damaged_checkpoint_gives_way_to_the_one_before(tmp_path):
    left = Storage(tmp_path)
    left.complete(3)
    newest = left.complete(4)
    damage(newest)
    assert left.recover() == ([3], 4)
    assert "chk-4" in left.said[0]
    assert newest.exists(), "it stays for whoever wants to know what happened to it"


def test_a_damaged_checkpoint_without_another_stops_the_job_and_is_named(tmp_path):
    left = Storage(tmp_path)
    damage(left.complete(4))
    with pytest.raises(CorruptSnapshotError) as caught:
        left.recover()
    assert "chk-4" in str(caught.value)


def test_checkpoints_of_another_job_in_the_same_directory_are_left_alone(tmp_path):
    left = Storage(tmp_path, create_subdir=False)
    left.complete(3)
    left.complete(4, OTHER)
    others = left.begin(5)
    assert left.recover()[0] == [3]
    assert others.exists()


def test_checkpoint_ids_go_on_in_another_process(tmp_path):
    ids = DurableCheckpointIds(tmp_path / "ids.json")
    assert [ids.get_and_increment(), ids.get_and_increment()] == [1, 2]
    again = DurableCheckpointIds(tmp_path / "ids.json")
    assert again.get_and_increment() == 3
    again.continue_above(10)
    assert again.get_and_increment() == 11
    assert DurableCheckpointIds(tmp_path / "ids.json").get_and_increment() == 12


@pytest.mark.parametrize("step", [Step.LIST, Step.LOOK])
def test_a_storage_that_can_not_tell_costs_no_checkpoint(tmp_path, step):
    faults = Faults(tmp_path / FAULTS)
    storage = Storage(tmp_path, scheme="faulty://")
    kept = [storage.complete(1), storage.complete(2)]
    faults.arm(step, Action.FAIL)
    with pytest.raises(SnapshotError, match=f"injected at {step.value}"):
        storage.recover()
    assert all((path / "_metadata").exists() for path in kept)
    assert storage.recover() == ([1, 2], 2)
