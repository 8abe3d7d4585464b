"""Which files of earlier checkpoints a new one may refer to."""

from __future__ import annotations

from pystate.core.snapshot.handles.handles import FileStateHandle
from pystate.core.snapshot.handles.incremental_handle import SharedFile
from pystate.runtime.slot.snapshots.uploaded_files import UploadedFiles


def shared(name: str, size: int = 1000, directory: str = "file:/c/job/shared") -> SharedFile:
    return SharedFile(f"backend/{name}", FileStateHandle(f"{directory}/job-1-{name}", size, 7))


def test_only_what_a_complete_checkpoint_has_written_may_be_referred_to():
    files = UploadedFiles({"r": shared("r")})
    assert files.confirmed() == {"r": shared("r")}
    files.written(1, {"r": shared("r"), "a": shared("a")})
    assert files.confirmed() == {"r": shared("r")}
    files.confirm(1)
    assert files.confirmed() == {"r": shared("r"), "a": shared("a")}
    files.written(2, {"a": shared("a"), "b": shared("b")})
    files.forget(2)
    files.confirm(2)
    assert files.confirmed().keys() == {"r", "a"}, "it failed"


def test_what_the_first_of_two_has_written_stays_and_an_older_one_changes_nothing():
    files = UploadedFiles()
    first, second, third = shared("a"), shared("a", directory="file:/c/job/again"), shared("b")
    files.written(1, {"a": first})
    files.written(2, {"a": second, "b": third})
    files.written(3, {"a": second})
    files.confirm(1)
    files.confirm(2)
    assert files.confirmed() == {"a": first, "b": third}
    files.confirm(1)
    files.written(1, {"x": third})
    files.confirm(1)
    assert files.confirmed() == {"a": first, "b": third}
    files.confirm(99)
    assert files.confirmed() == {"a": first, "b": third}, "of a checkpoint that was never written here nothing is known"
