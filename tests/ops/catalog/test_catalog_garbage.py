"""What may be swept away, and above all what may not."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import fsspec
import pytest

from pystate.core.snapshot.storage.ownership import NoteKind, Notes, claim
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.ops.catalog.garbage import GarbageCollection, Orphan, OrphanKind, named_files
from pystate.ops.catalog.snapshot_summary import read_snapshot
from tests.core.snapshot.snapshots import V0, V1, write_checkpoint, write_incremental, write_savepoint

HOUR = 3_600_000
LATER = int(time.time() * 1000) + 2 * HOUR


def collection(
    *directories: object, now_ms: int = LATER, jobs: bool = False, state: Callable[[str], bool | None] = lambda _: None
) -> GarbageCollection:
    return GarbageCollection(list(map(str, directories)), now_ms=now_ms, least_age_ms=HOUR, job_state=state, jobs=jobs)


def found(*directories: object, **options: object) -> list[tuple[str, str]]:
    orphans = collection(*directories, **options).orphans()  # type: ignore[arg-type]
    return [(orphan.kind.name, orphan.uri.removeprefix(f"file:{directories[0]}/")) for orphan in orphans]


def folder(location: SnapshotLocation) -> Path:
    return Path(location.uri.removeprefix("file:"))


def put(path: Path, content: str = "12345") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def test_nothing_of_a_snapshot_is_an_orphan(tmp_path: Path) -> None:
    write_savepoint(tmp_path)
    write_checkpoint(tmp_path / "checkpoints", 7)

    assert found(tmp_path, jobs=True) == []


def test_orphans_of_all_kinds(tmp_path: Path) -> None:
    location = write_savepoint(tmp_path)
    put(folder(location) / "abcdef012345-0-keyed-0011aabb")
    put(folder(location) / ".abcdef012345-0-keyed-0011aabb.inprogress")
    put(tmp_path / "savepoint-83f146-bbbbbbbbbbbb" / "abcdef012345-0-keyed-0011aabb")
    put(tmp_path / V0 / "chk-3" / "abcdef012345-0-keyed-0011aabb")
    put(tmp_path / V0 / "shared" / ".x-0011aabb.inprogress")
    (tmp_path / "savepoint-83f146-cccccccccccc").mkdir()

    orphans = collection(tmp_path, now_ms=LATER).orphans()

    prefix = f"file:{tmp_path}"
    assert orphans == [
        Orphan(OrphanKind.INCOMPLETE, f"{prefix}/{V0}/chk-3", 5),
        Orphan(OrphanKind.IN_PROGRESS, f"{prefix}/{V0}/shared/.x-0011aabb.inprogress", 5),
        Orphan(OrphanKind.IN_PROGRESS, f"{location.uri}/.abcdef012345-0-keyed-0011aabb.inprogress", 5),
        Orphan(OrphanKind.UNNAMED, f"{location.uri}/abcdef012345-0-keyed-0011aabb", 5),
        Orphan(OrphanKind.INCOMPLETE, f"{prefix}/savepoint-83f146-bbbbbbbbbbbb", 5),
        Orphan(OrphanKind.INCOMPLETE, f"{prefix}/savepoint-83f146-cccccccccccc", 0),
    ]


def test_what_is_young_may_still_be_written(tmp_path: Path) -> None:
    location = write_savepoint(tmp_path)
    put(folder(location) / "x-0011aabb")
    old = put(tmp_path / "savepoint-83f146-bbbbbbbbbbbb" / "x-0011aabb")
    os.utime(old, (1, 1))
    put(old.with_name("y-0011aabb"))

    assert found(tmp_path, now_ms=int(time.time() * 1000) + HOUR - 60_000) == []


def test_a_running_jobs_checkpoint_is_never_an_orphan_however_old(tmp_path: Path) -> None:
    put(tmp_path / V0 / "chk-3" / "x-0011aabb")
    put(tmp_path / V1 / "chk-3" / "x-0011aabb")

    assert found(tmp_path, state={V0: True, V1: False}.get) == [("INCOMPLETE", f"{V1}/chk-3")]


def test_what_people_put_beside_a_snapshot_stays(tmp_path: Path) -> None:
    location = write_savepoint(tmp_path)
    put(folder(location) / "NOTES.txt")
    put(tmp_path / "savepoint-83f146-bbbbbbbbbbbb" / "NOTES.txt")
    put(tmp_path / "chk-100" / "model.bin")  # another program's idea of a checkpoint
    put(tmp_path / "chk-100" / "x-0011aabb")
    put(tmp_path / ".x.inprogress")
    put(tmp_path / "x-0011aabb")
    put(tmp_path / "chk-200" / "weights" / "x-0011aabb")

    assert found(tmp_path, jobs=True) == []


def test_beside_metadata_that_cannot_be_read_everything_stays(tmp_path: Path) -> None:
    sound, damaged = write_savepoint(tmp_path), write_savepoint(tmp_path, snapshot_id="b" * 12)
    for location in (sound, damaged):
        put(folder(location) / "x-0011aabb")
    (folder(damaged) / "_metadata").write_bytes(b"x")
    put(tmp_path / V0 / "shared" / "x-0011aabb")

    garbage = collection(tmp_path, jobs=True)

    assert garbage.orphans() == []
    assert [sentence.split(":")[1].split("/")[-1] for sentence in garbage.kept] == [
        f"savepoint-83f146-{'b' * 12} is left alone",
        f"{V0} is left alone",
    ]


def test_folders_of_unknown_jobs_go_only_when_asked_for_and_without_a_checkpoint(tmp_path: Path) -> None:
    put(tmp_path / V0 / "shared" / "x-0011aabb")
    put(tmp_path / V0 / "chk-1" / "x-0011aabb")
    (tmp_path / V0 / "taskowned").mkdir()
    write_checkpoint(tmp_path, 7, job_id=V1)
    put(tmp_path / ("1" * 32) / "shared" / "x-0011aabb")  # known here
    put(tmp_path / ("2" * 32) / "photo.jpg")  # no job's
    (tmp_path / ("3" * 32)).mkdir()

    known = {"1" * 32: False}.get
    garbage = collection(tmp_path, jobs=True, state=known)

    assert found(tmp_path, state=known) == [("INCOMPLETE", f"{V0}/chk-1")]
    assert [(one.kind, one.uri) for one in garbage.orphans()] == [(OrphanKind.UNKNOWN_JOB, f"file:{tmp_path}/{V0}")]
    assert garbage.kept == [f"file:{tmp_path}/{V1} is left alone: it holds checkpoints that can be restored"]


def test_files_that_another_snapshot_names_stay(tmp_path: Path) -> None:
    shared = put(tmp_path / V0 / "shared" / "1-x-0011aabb")
    location = write_incremental(tmp_path / "elsewhere", shared)

    assert f"file:{shared}" in named_files(read_snapshot(location), location.uri)
    assert found(tmp_path, jobs=True) == []


# -- symbolic links


def needed_file(real: Path) -> Path:
    """Write a checkpoint of a job that names a file in the job's folder of shared ones; return that file."""
    shared = put(real / V0 / "shared" / f"{V0[:16]}-4-0123abcd-x.sst-0011aabb")
    write_incremental(real / V0, shared)
    return shared


def test_a_file_that_is_needed_is_no_orphan_whichever_way_a_link_leads_to_it(tmp_path: Path) -> None:
    needed_file(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    ended = {V0: False}.get

    assert found(tmp_path / "link", state=ended) == [], "looked at through the link, written without it"
    assert found(tmp_path / "link", tmp_path / "real", jobs=True, state=ended) == []

    (tmp_path / "other").mkdir()
    (tmp_path / "by-link").symlink_to(tmp_path / "other")
    needed_file(tmp_path / "by-link")
    assert found(tmp_path / "other", state=ended) == [], "the other way round"
    assert found(tmp_path / "other" / V0, jobs=True, state=ended) == []


def test_a_shared_file_that_is_a_link_stays_and_so_does_what_it_leads_to(tmp_path: Path) -> None:
    shared = needed_file(tmp_path / "real")
    moved = shared.parent / f"{V0[:16]}-5-0123abcd-x.sst-0011aabb"
    shared.rename(moved)
    shared.symlink_to(moved)

    assert found(tmp_path, state={V0: False}.get) == []


def test_links_are_neither_followed_nor_deleted(tmp_path: Path) -> None:
    precious = put(tmp_path / "precious" / "abcdef012345-0-keyed-0011aabb")
    put(tmp_path / "root" / V0 / "shared" / "NOTES.txt")
    complete = folder(write_savepoint(tmp_path / "root"))
    for place in (
        complete / "x-0011aabb",
        complete / ".x-0011aabb.inprogress",
        tmp_path / "root" / V0 / "shared" / f"{V0[:16]}-3-0123abcd-x.sst-0011aabb",
        tmp_path / "root" / V1 / "shared" / "x",
    ):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(precious)
    put(tmp_path / "root" / "savepoint-83f146-bbbbbbbbbbbb" / "x-0011aabb")
    for name in ("savepoint-83f146-bbbbbbbbbbbb/y-0011aabb", "savepoint-83f146-cccccccccccc"):
        (tmp_path / "root" / name).symlink_to(precious.parent)
    before = sorted(tmp_path.rglob("*"))

    garbage = collection(tmp_path / "root", jobs=True)

    assert garbage.orphans() == []
    left = [f"file:{tmp_path}/root/{job} is left alone: there is a symbolic link in it" for job in (V0, V1)]
    assert sorted(garbage.kept) == sorted(left)
    assert sorted(tmp_path.rglob("*")) == before


def test_an_orphan_in_whose_place_a_link_has_come_is_none_any_more(tmp_path: Path) -> None:
    other = put(tmp_path / "other" / "x-0011aabb")
    orphan = tmp_path / "root" / "savepoint-83f146-bbbbbbbbbbbb"
    file = put(orphan / "x-0011aabb")
    garbage = collection(tmp_path / "root")
    (incomplete,) = garbage.orphans()
    file.unlink()
    orphan.rmdir()
    orphan.symlink_to(other.parent)

    assert not garbage.delete(incomplete)
    assert other.exists()
    assert orphan.is_symlink()


# -- deleting


def test_a_claim_is_no_orphan_and_goes_with_what_is_left_of_its_snapshot(tmp_path: Path) -> None:
    location = write_savepoint(tmp_path)
    claim(location, V1, None, lambda _: False)

    assert found(tmp_path, jobs=True) == []

    (folder(location) / "_metadata").unlink()
    assert found(tmp_path) == [("INCOMPLETE", folder(location).name)]


def test_shared_files_that_no_checkpoint_refers_to_are_orphans_once_the_job_has_ended(tmp_path: Path) -> None:
    shared = tmp_path / V0 / "shared"
    name, needed = (f"{V0[:16]}-{number}-0123abcd-x.sst-0011aabb" for number in (3, 4))
    put(shared / name)
    put(shared / "NOTES.txt")
    write_incremental(tmp_path / V1, put(shared / needed))  # another job's checkpoint in a folder that isn't looked at
    Notes(SnapshotLocation(str(shared)), NoteKind.USE).write(V1, f"file:{tmp_path}/{V1}", owned=False)

    assert found(tmp_path / V0, state={V0: True}.get) == []
    assert found(tmp_path / V0) == [], "a job that nobody knows here may run elsewhere"
    assert found(tmp_path / V0, state={V0: False}.get) == [("UNREFERENCED", f"shared/{name}")]
    assert found(tmp_path / V0, jobs=True) == [("UNREFERENCED", f"shared/{name}")], "and its folder stays"

    garbage = collection(tmp_path / V0, state={V0: False}.get)
    assert [garbage.delete(orphan) for orphan in garbage.orphans()] == [True]
    assert sorted(path.name.partition("-")[0] for path in shared.iterdir()) == [V0[:16], "NOTES.txt", "use"]
    (note,) = shared.glob("use-*")
    note.write_bytes(b"x")
    put(shared / name)
    assert found(tmp_path / V0, state={V0: False}.get) == [], "nobody knows what is needed"


def test_orphans_are_deleted_and_nothing_else(tmp_path: Path) -> None:
    location = write_savepoint(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    put(folder(location) / "x-0011aabb")
    put(folder(location) / ".x-0011aabb.inprogress")
    put(tmp_path / "savepoint-83f146-bbbbbbbbbbbb" / "x-0011aabb")
    put(tmp_path / V0 / "shared" / "x-0011aabb")
    garbage = collection(tmp_path, jobs=True)

    assert [garbage.delete(orphan) for orphan in garbage.orphans()] == [True] * 4
    assert sorted(tmp_path.rglob("*")) == before
    assert garbage.orphans() == []


def test_a_snapshot_that_completed_meanwhile_stays(tmp_path: Path) -> None:
    incomplete = tmp_path / "savepoint-83f146-bbbbbbbbbbbb"
    put(incomplete / "x-0011aabb")
    garbage = collection(tmp_path)
    (orphan,) = garbage.orphans()
    source = folder(write_savepoint(tmp_path / "other"))
    shutil.copytree(source, incomplete, dirs_exist_ok=True)

    assert garbage.delete(orphan) is False
    assert (incomplete / "_metadata").exists()


def test_what_is_gone_already_is_no_error(tmp_path: Path) -> None:
    path = put(tmp_path / "savepoint-83f146-bbbbbbbbbbbb" / "x-0011aabb")
    garbage = collection(tmp_path)
    (orphan,) = garbage.orphans()
    shutil.rmtree(path.parent)

    assert garbage.delete(orphan) is False


def test_what_has_no_known_age_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "savepoint-83f146-bbbbbbbbbbbb" / "x-0011aabb")
    assert found(tmp_path)
    monkeypatch.setattr("pystate.ops.catalog.garbage._TIMES", ())

    assert found(tmp_path) == []


def test_stores_without_directories_are_swept_too() -> None:
    fs = fsspec.filesystem("memory")
    fs.pipe("/garbage/savepoint-83f146-bbbbbbbbbbbb/x-0011aabb", b"12345")
    garbage = collection("memory://garbage")

    (orphan,) = garbage.orphans()
    assert (orphan.uri, orphan.size) == ("memory://garbage/savepoint-83f146-bbbbbbbbbbbb", 5)
    assert garbage.delete(orphan)
    assert not fs.exists("/garbage/savepoint-83f146-bbbbbbbbbbbb/x-0011aabb")
