"""A snapshot is looked at before a job is started from it."""

import shutil

import pytest

from pystate.common import Types
from pystate.common.errors import CorruptSnapshotError, RestoreError
from pystate.core.snapshot.starting_snapshot import read_starting_point
from tests.fixtures import all_kinds


@pytest.fixture
def checkpoints(tmp_path):
    """The folder of a job's checkpoints 7 and 12; 13 is not complete."""
    operator = all_kinds.all_kinds_operator("count", [("ant", 1)], Types.STRING(), "hashmap", with_raw=False)
    folder = tmp_path / ("a" * 32)
    all_kinds.write_savepoint(folder / "chk-12", [operator])
    shutil.copytree(folder / "chk-12", folder / "chk-7")
    (folder / "chk-13").mkdir()
    return folder


@pytest.mark.parametrize("suffix", ["", "/", "/_metadata"])
def test_a_snapshot_is_found_by_its_directory_and_its_metadata(checkpoints, suffix):
    location, metadata = read_starting_point(f"{checkpoints}/chk-7{suffix}")

    assert location.uri.endswith("/chk-7")
    assert [operator.uid for operator in metadata.operators] == ["count"]


@pytest.mark.parametrize("name", ["chk-3", "chk-3/_metadata", "chk-13"])
def test_of_a_checkpoint_that_was_deleted_or_never_completed_the_others_are_named(checkpoints, name):
    with pytest.raises(RestoreError) as error:
        read_starting_point(f"{checkpoints}/{name}")

    assert error.value.hint.endswith("there are chk-7, chk-12")


def test_a_folder_of_snapshots_is_none_itself_and_says_how_many_are_below(checkpoints, tmp_path):
    with pytest.raises(RestoreError, match="this is no snapshot; 2 are below it") as error:
        read_starting_point(str(checkpoints))
    assert error.value.hint == f"pystate savepoints list {checkpoints} --all"

    savepoints = tmp_path / "my savepoints"
    shutil.copytree(checkpoints / "chk-7", savepoints / "orders" / "savepoint-aaaaaa-0123456789ab")
    with pytest.raises(RestoreError, match="this is no snapshot; 1 is below it") as error:
        read_starting_point(str(savepoints))
    assert error.value.hint == f"pystate savepoints list '{savepoints}'"


def test_of_very_many_folders_only_some_are_looked_into(checkpoints, monkeypatch):
    monkeypatch.setattr("pystate.core.snapshot.storage.snapshot_location._MAX_LISTED", 3)

    with pytest.raises(RestoreError, match="or more are below it"):
        read_starting_point(str(checkpoints))


def test_a_path_that_leads_nowhere(tmp_path):
    with pytest.raises(RestoreError, match="^Cannot find checkpoint or savepoint") as error:
        read_starting_point(f"{tmp_path}/none/chk-1")
    assert error.value.hint.startswith("give a directory chk-N")


def test_damaged_metadata(checkpoints):
    metadata = checkpoints / "chk-7" / "_metadata"
    metadata.write_bytes(metadata.read_bytes()[:-1])

    with pytest.raises(CorruptSnapshotError):
        read_starting_point(f"{checkpoints}/chk-7")
