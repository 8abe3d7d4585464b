"""Files that nobody sees before they are committed, on each kind of storage."""

from __future__ import annotations

import errno
import os

import pytest

from pystate.core.file_systems import renamed_files
from pystate.core.file_systems.places import parse_location
from pystate.core.file_systems.recoverable import recoverable_files
from pystate.core.file_systems.recoverable_files import CommitOutcome, UncommittableError
from tests.core.file_systems.conftest import Place

PART = 5 << 20


@pytest.fixture
def opened(place: Place):
    files, path = recoverable_files(place.uri, "0123abcd-2")
    fs, _, _ = parse_location(place.uri)
    return files, f"{path}/bucket/part-0", fs


def visible(fs, path):
    """Return what a reader finds there; None for nothing."""
    fs.invalidate_cache()
    return fs.cat_file(path) if fs.exists(path) else None


def begun(files, path, *data):
    file = files.open(path)
    for one in data:
        file.write(one)
    return file


def forget_uploads(place: Place, answers=1):
    """Let the next requests for an upload hear that there is none."""
    if place.kind == "s3":
        place.s3.fails = lambda asked: "uploadId" in asked
        place.s3.failures += [404] * answers


def test_a_file_is_there_once_it_is_committed_and_a_commit_may_be_repeated(opened, place):
    files, path, fs = opened
    file = begun(files, path, b"abc", b"def")
    assert file.tell() == 6
    kept = file.close_for_commit()
    assert visible(fs, path) is None
    assert files.commit(kept) is CommitOutcome.COMMITTED
    assert visible(fs, path) == b"abcdef"
    again, _ = recoverable_files(place.uri, "other")
    # S3 may remember the upload for a while, and says yes; then it doesn't
    told = again.commit(kept)
    assert told is CommitOutcome.ALREADY_COMMITTED or place.kind == "s3"
    forget_uploads(place)
    assert again.commit(kept) is CommitOutcome.ALREADY_COMMITTED
    assert visible(fs, path) == b"abcdef"


def test_nothing_is_left_of_a_file_that_is_discarded(opened):
    files, path, fs = opened
    begun(files, path, b"abc").discard()
    folder = path.rpartition("/")[0]
    assert not fs.exists(folder) or fs.ls(folder, detail=False) == []


def test_another_file_of_the_name_is_never_taken_for_the_own_one(opened, place):
    files, path, fs = opened
    kept = begun(files, path, b"abc").close_for_commit()
    folder = path.rpartition("/")[0]
    fs.makedirs(folder, exist_ok=True)
    lost = {**kept, "temporary": f"{folder}/.gone"}
    forget_uploads(place, 2)
    with pytest.raises(UncommittableError):
        files.commit(lost)
    fs.pipe_file(path, b"other")
    with pytest.raises(UncommittableError):
        files.commit(lost)
    assert visible(fs, path) == b"other"


def test_files_in_progress_are_swept_by_their_names(opened, place):
    files, path, fs = opened
    if place.kind == "s3":
        assert files.sweep(lambda _: True) == 0
        return
    assert files.sweep(lambda _: True) == 0
    begun(files, path, b"abc").close_for_commit()
    kept = begun(files, f"{path}0", b"abc").close_for_commit()
    files.commit(kept)
    tags = []
    assert files.sweep(lambda tag: bool(tags.append(tag))) == 0
    assert [tag[: len("0123abcd-2-")] for tag in tags] == ["0123abcd-2-"]
    assert files.sweep(lambda tag: True) == 1
    assert visible(fs, f"{path}0") == b"abc"


def test_a_persisted_file_is_gone_on_with(opened):
    files, path, fs = opened
    if not files.resumable:
        file = begun(files, path, b"abc")
        with pytest.raises(NotImplementedError):
            file.persist()
        file.discard()
        return
    file = begun(files, path, b"abc")
    kept = file.persist()
    file.write(b"lost")
    assert files.resume(kept) is None
    assert b"".join(files.prefix(kept)) == b"abc"
    file.write(b"still lost")
    file.close()
    assert b"".join(files.prefix(kept)) == b"abc"


def test_an_upload_with_parts_goes_on_and_keeps_away_from_who_still_writes(s3_place):
    files, path = recoverable_files(s3_place.uri, "tag")
    fs, _, _ = parse_location(s3_place.uri)
    file = begun(files, f"{path}/part-0", b"a" * PART, b"tail")
    kept = file.persist()
    assert (len(kept["parts"]), kept["tail"]) == (1, b"tail")
    resumed = files.resume(kept)
    resumed.write(b"b" * PART)
    file.write(b"x" * PART)  # by a process that was taken for dead, to the next part
    committable = resumed.close_for_commit()
    assert files.commit(committable) is CommitOutcome.COMMITTED
    assert visible(fs, f"{path}/part-0") == b"a" * PART + b"tail" + b"b" * PART
    forget_uploads(s3_place, 3)
    assert files.commit(committable) is CommitOutcome.ALREADY_COMMITTED
    with pytest.raises(UncommittableError, match="over"):
        files.resume(kept)
    with pytest.raises(UncommittableError, match="elsewhere"):
        files.prefix(kept)
    with pytest.raises(UncommittableError, match="another object"):
        files.commit({**committable, "token": "other"})


def test_an_upload_that_is_discarded_is_forgotten(s3_place):
    files, path = recoverable_files(s3_place.uri, "tag")
    fs, _, _ = parse_location(s3_place.uri)
    begun(files, f"{path}/part-0", b"a" * PART).discard()
    assert not fs.call_s3("list_multipart_uploads", Bucket=s3_place.bucket).get("Uploads")


def test_where_there_are_no_hard_links_a_rename_does_it(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EPERM, "no links")

    monkeypatch.setattr(renamed_files.os, "link", refuse)
    files, path = recoverable_files(str(tmp_path), "tag")
    kept = begun(files, f"{path}/a", b"abc").close_for_commit()
    (tmp_path / "a").write_text("abc")
    with pytest.raises(UncommittableError, match="another file"):
        files.commit(kept)
    (tmp_path / "a").unlink()
    assert files.commit(kept) is CommitOutcome.COMMITTED
    assert files.commit(kept) is CommitOutcome.ALREADY_COMMITTED
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


class FullDisk(renamed_files.Disk):
    """Takes no byte."""

    def open_new(self, path):
        return open("/dev/full", "wb")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_full_disk_is_said_with_the_file_that_has_no_room(tmp_path):
    fs, path, _ = parse_location(tmp_path.as_uri())
    files = renamed_files.LocalFiles(fs, path, "0123abcd-2", FullDisk())
    for write in (lambda file: file.write(bytes(1 << 20)), lambda file: (file.write(b"a"), file.persist())):
        file = files.open(f"{path}/part-0")
        with pytest.raises(OSError, match=r"No space left on device: '.*/\.part-0\.inprogress\.") as full:
            write(file)
        assert full.value.errno == errno.ENOSPC
        file.discard()
