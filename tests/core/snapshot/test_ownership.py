"""Notes of owners: who may delete a snapshot, and which shared files somebody still needs."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import pytest

from pystate.common.errors import CorruptSnapshotError, PystateError, RestoreError
from pystate.core.snapshot.metadata_file import read_metadata
from pystate.core.snapshot.storage.ownership import NoteKind, Notes, OwnershipNote, claim, claimant, is_note
from pystate.core.snapshot.storage.shared_state_folder import SharedStateFolder, free_shared_files
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from tests.core.snapshot.snapshots import V0, write_checkpoint, write_incremental, write_savepoint

A, B = "a" * 32, "b" * 32
NOTE = OwnershipNote(NoteKind.CLAIM, A, "file:/sp/savepoint-83f146-0123456789ab", "file:/ck/a", True)
SHARED = f"{V0[:16]}-3-0123abcd-000012.sst-0011aabb"


def folder(location: SnapshotLocation) -> Path:
    return Path(location.uri.removeprefix("file:"))


def never(job_id: str) -> bool:
    return False


def test_a_note_says_what_was_written():
    assert OwnershipNote.from_bytes(NOTE.to_bytes()) == NOTE
    other = OwnershipNote(NoteKind.USE, B, "memory://x", None, False)
    assert OwnershipNote.from_bytes(other.to_bytes()) == other


def test_no_damage_of_a_note_goes_unnoticed():
    data = NOTE.to_bytes()
    for index in range(len(data)):
        changed = bytearray(data)
        changed[index] ^= 1 << index % 8
        with pytest.raises(CorruptSnapshotError):
            OwnershipNote.from_bytes(bytes(changed))
        with pytest.raises(CorruptSnapshotError):
            OwnershipNote.from_bytes(data[:index])
    for longer in (data + b"x", data * 2, b"", b"x" * (1 << 17)):
        with pytest.raises(CorruptSnapshotError):
            OwnershipNote.from_bytes(longer)


def test_a_damaged_note_is_named_and_nothing_is_claimed_or_called_free(tmp_path):
    location = write_savepoint(tmp_path)
    claim(location, A, None, never)
    (name,) = filter(is_note, os.listdir(folder(location)))
    (folder(location) / name).write_bytes(b"x")
    for act in (lambda: claimant(location), lambda: claim(location, B, None, never)):
        with pytest.raises(CorruptSnapshotError) as refused:
            act()
        assert refused.value.where == f"{location.uri}/{name}"
    assert [one for one in os.listdir(folder(location)) if is_note(one)] == [name], "no half of a claim is left"


def test_a_note_under_another_jobs_name_is_refused(tmp_path):
    location = write_savepoint(tmp_path)
    claim(location, A, None, never)
    (name,) = filter(is_note, os.listdir(folder(location)))
    (folder(location) / name).rename(folder(location) / f"claim-{B}-0011aabb")
    with pytest.raises(CorruptSnapshotError, match=A):
        claimant(location)


def test_claims_exclude_each_other_and_can_be_given_back(tmp_path):
    location = write_savepoint(tmp_path)
    assert claimant(location) is None
    claim(location, A, "file:/ck/a", never)
    claim(location, A, "file:/ck/a", never)
    assert claimant(location) == A
    with pytest.raises(RestoreError, match=f"Job {A} has claimed"):
        claim(location, B, None, never)
    assert list(Notes(location, NoteKind.CLAIM).read()) == [A]
    claim(location, B, None, {A: True}.__getitem__)
    assert claimant(location) == B
    Notes(location, NoteKind.CLAIM).remove(B)
    assert claimant(location) is None


def test_of_jobs_that_claim_at_the_same_moment_one_at_most_gets_it(tmp_path):
    location = write_savepoint(tmp_path)
    start = threading.Barrier(6)
    won, lost = [], []

    def contend(job_id: str) -> None:
        start.wait()
        try:
            claim(location, job_id, None, never)
            won.append(job_id)
        except RestoreError:
            lost.append(job_id)

    threads = [threading.Thread(target=contend, args=(f"{number:032x}",)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) <= 1
    assert len(won) + len(lost) == 6
    assert claimant(location) == (won[0] if won else None)


def test_a_claim_holds_through_a_link_and_not_for_a_copy_or_after_a_move(tmp_path):
    location = write_savepoint(tmp_path / "here")
    claim(location, A, None, never)
    (tmp_path / "link").symlink_to(tmp_path / "here")
    assert claimant(SnapshotLocation(f"{tmp_path}/link/{folder(location).name}")) == A
    copy = shutil.copytree(folder(location), tmp_path / "copies" / folder(location).name)
    assert claimant(SnapshotLocation(str(copy))) is None
    moved = shutil.move(folder(location), tmp_path / "elsewhere")
    assert claimant(SnapshotLocation(str(moved))) is None


def test_claims_work_on_other_filesystems():
    location = write_savepoint("memory://claims")
    claim(location, A, None, never)
    assert claimant(location) == A
    with pytest.raises(RestoreError):
        claim(location, B, None, never)


def incremental(tmp_path: Path, number: int, name: str = SHARED) -> SnapshotLocation:
    """Write an incremental checkpoint, all of whose subtasks refer to one shared file."""
    shared = tmp_path / V0 / "shared" / name
    shared.parent.mkdir(parents=True, exist_ok=True)
    if not shared.exists():
        shared.write_bytes(b"12345")
    written = folder(write_incremental(tmp_path / "scratch" / str(number), shared))
    return SnapshotLocation(str(shutil.move(written, tmp_path / V0 / f"chk-{number}")))


def metadata_of(location: SnapshotLocation):
    return read_metadata(location.read_metadata(), location.uri)


def test_shared_files_of_a_checkpoint_that_is_gone_go_when_no_other_one_needs_them(tmp_path):
    first, second = incremental(tmp_path, 3), incremental(tmp_path, 4)
    shared = tmp_path / V0 / "shared" / SHARED
    one, other = metadata_of(first), metadata_of(second)
    first.discard()
    assert free_shared_files(one, first.uri) == []
    assert shared.exists()
    second.discard()
    assert free_shared_files(other, second.uri) == []
    assert not shared.exists()


def test_checkpoints_of_other_jobs_that_use_the_folder_count(tmp_path):
    first = incremental(tmp_path, 3)
    theirs = incremental(tmp_path, 4)
    elsewhere = Path(shutil.move(folder(theirs), tmp_path / B / "chk-4"))
    gone = metadata_of(first)
    first.discard()
    uses = SharedStateFolder(f"file:{tmp_path / V0 / 'shared'}").uses
    uses.write(B, f"file:{tmp_path / B}", owned=False)
    free_shared_files(gone, first.uri)
    assert (tmp_path / V0 / "shared" / SHARED).exists()
    shutil.rmtree(elsewhere)
    free_shared_files(gone, first.uri)
    assert not (tmp_path / V0 / "shared" / SHARED).exists()


@pytest.mark.parametrize("what", ["metadata", "note"])
def test_where_nobody_can_say_what_is_needed_everything_stays(tmp_path, what):
    first, second = incremental(tmp_path, 3), incremental(tmp_path, 4)
    gone = metadata_of(first)
    first.discard()
    if what == "metadata":
        (folder(second) / "_metadata").write_bytes(b"x")
    else:
        (tmp_path / V0 / "shared" / f"use-{B}-0011aabb").write_bytes(b"x")
    (error,) = free_shared_files(gone, first.uri)
    assert isinstance(error, PystateError)
    assert (tmp_path / V0 / "shared" / SHARED).exists()


@pytest.mark.parametrize(
    ("directory", "name"), [(V0, "passwd"), (V0, "-3-0123abcd-x"), ("not-shared", SHARED), ("keys", f"{SHARED}")]
)
def test_a_snapshot_can_not_make_us_delete_what_no_job_writes(tmp_path, directory, name):
    victim = tmp_path / directory / ("shared" if directory == V0 else "files") / name
    victim.parent.mkdir(parents=True)
    victim.write_bytes(b"12345")
    location = write_incremental(tmp_path / "hostile", victim)
    metadata = metadata_of(location)
    location.discard()
    free_shared_files(metadata, location.uri)
    assert victim.exists()


@pytest.mark.parametrize("word", [None, "of another job", "of other checkpoints", "of these checkpoints"])
def test_files_of_another_folder_go_only_where_the_job_has_left_word_in_it(tmp_path, word):
    victim = tmp_path / B / "shared" / SHARED
    victim.parent.mkdir(parents=True)
    victim.write_bytes(b"12345")
    location = write_incremental(tmp_path / "hostile", victim)
    beside = location.uri.rsplit("/", 1)[0]
    uses = SharedStateFolder(f"file:{victim.parent}").uses
    if word is not None:
        checkpoints = f"file:{tmp_path}/others" if word == "of other checkpoints" else beside
        uses.write(B if word == "of another job" else V0, checkpoints, owned=False)
    metadata = metadata_of(location)
    location.discard()

    errors = free_shared_files(metadata, location.uri)

    assert victim.exists() is (word != "of these checkpoints")
    assert bool(errors) is victim.exists()


def test_a_folder_of_shared_files_that_is_a_link_is_left_alone(tmp_path):
    location = incremental(tmp_path, 3)
    (tmp_path / V0 / "shared").rename(tmp_path / "theirs")
    (tmp_path / V0 / "shared").symlink_to(tmp_path / "theirs")
    metadata = metadata_of(location)
    location.discard()

    (error,) = free_shared_files(metadata, location.uri)

    assert "shared is a link, not a folder" in str(error)
    assert (tmp_path / "theirs" / SHARED).exists()


def test_a_checkpoint_without_shared_files_frees_none(tmp_path):
    location = write_checkpoint(tmp_path, 3)
    assert free_shared_files(metadata_of(location), location.uri) == []
