"""The epoch that is running, written down."""

from dataclasses import replace

import pytest

from pystate.common.errors import CorruptSnapshotError, RestoreError
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.runtime.engines.micro_batch.driver import running_epoch
from pystate.runtime.engines.micro_batch.driver.running_epoch import RunningEpoch, RunningEpochStore

FIRST = RunningEpoch(41, 3, "file:/c/chk-7", {"offsets/3": b"v1\n", "sources/0/3": b"v1\n"})
SECOND = RunningEpoch(42, 4, None, {"offsets/4": b"v1\n"})


@pytest.fixture
def store(tmp_path):
    return RunningEpochStore(SnapshotLocation(str(tmp_path / "taskowned")))


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "taskowned"
    made.mkdir()
    return made


def test_nothing_was_begun(store):
    assert store.read() is None


def test_the_last_epoch_that_was_begun_is_found_and_those_before_are_gone(store, folder):
    store.write(FIRST)
    assert store.read() == FIRST
    store.write(SECOND)
    store.write(SECOND)
    assert store.read() == SECOND
    assert len(list(folder.iterdir())) == 1


@pytest.mark.usefixtures("folder")
def test_an_epoch_of_the_clock_has_its_time_and_no_files(store):
    by_clock = RunningEpoch(43, 4, "file:/c/chk-8", {}, clock=1_795_232_000_123)
    store.write(by_clock)
    assert store.read() == by_clock


@pytest.mark.usefixtures("folder")
def test_an_epoch_of_rows_has_its_time_beside_its_files(store):
    of_rows = replace(FIRST, rows_clock=1_795_232_000_123)
    store.write(of_rows)
    assert store.read() == of_rows


def test_files_of_others_are_left_alone(store, folder):
    (folder / "epoch-of-somebody").write_text("x")
    store.write(FIRST)
    assert store.read() == FIRST
    assert (folder / "epoch-of-somebody").exists()


def test_any_changed_or_missing_byte_is_noticed(store, folder):
    store.write(FIRST)
    (file,) = folder.iterdir()
    data = file.read_bytes()
    for index in range(len(data)):
        file.write_bytes(data[:index] + bytes([data[index] ^ 1]) + data[index + 1 :])
        with pytest.raises(CorruptSnapshotError):
            store.read()
    for length in range(len(data)):
        file.write_bytes(data[:length])
        with pytest.raises(CorruptSnapshotError):
            store.read()


def test_a_file_under_the_name_of_another_epoch_is_refused(store, folder):
    store.write(FIRST)
    (file,) = folder.iterdir()
    file.rename(folder / "epoch-50-abcd")
    with pytest.raises(CorruptSnapshotError, match="epoch 41"):
        store.read()


def test_a_newer_version_is_named(monkeypatch):
    monkeypatch.setattr(running_epoch, "_CONTENT", replace(running_epoch._CONTENT, version=2))
    data = FIRST.to_bytes()
    monkeypatch.undo()
    with pytest.raises(RestoreError, match="version 2"):
        RunningEpoch.from_bytes(data)
