"""A filesystem that fails at its n-th call, for every n: nothing half-written is ever taken for a snapshot."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from pystate.common.errors import SnapshotError
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation

STATE = b"s" * 50_000
METADATA = b"m" * 5_000


class Faults:
    """Lets a number of calls pass, then fails one, or all from then on."""

    def __init__(self, after: int, forever: bool, error: Exception) -> None:
        self.left = after
        self.forever = forever
        self.error = error
        self.raised = 0

    def reached(self) -> bool:
        self.left -= 1
        if self.left == -1 or (self.forever and self.left < 0):
            self.raised += 1
            return True
        return False

    def check(self) -> None:
        if self.reached():
            raise self.error


class FaultyFile:
    """A file that takes half of what it is given and then fails."""

    def __init__(self, file: Any, faults: Faults) -> None:
        self._file = file
        self._faults = faults

    def write(self, data: Any) -> int:
        if self._faults.reached():
            self._file.write(bytes(data)[: len(data) // 2])
            raise self._faults.error
        written: int = self._file.write(data)
        return written

    def flush(self) -> None:
        self._faults.check()
        self._file.flush()

    def fileno(self) -> int:
        self._faults.check()
        number: int = self._file.fileno()
        return number

    def close(self) -> None:
        self._file.close()
        self._faults.check()

    def __enter__(self) -> FaultyFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


FAILING_CALLS = ("makedirs", "exists", "mv", "link", "rm_file", "rm")


def make_faulty(base: type) -> type:
    """A kind of filesystem whose calls go by its faults first."""

    def open_(self: Any, path: str, mode: str = "rb", **options: Any) -> Any:
        self.faults.check()
        file = base.open(self, path, mode, **options)  # type: ignore[attr-defined]
        return FaultyFile(file, self.faults) if "w" in mode else file

    def call(name: str) -> Any:
        def faulty(self: Any, *args: Any, **options: Any) -> Any:
            self.faults.check()
            return getattr(base, name)(self, *args, **options)

        return faulty

    wrapped = {name: call(name) for name in FAILING_CALLS if hasattr(base, name)}
    return type(f"Faulty{base.__name__}", (base,), {"cachable": False, "open": open_, **wrapped})


FILESYSTEMS = {"local": make_faulty(LocalFileSystem), "memory": make_faulty(MemoryFileSystem)}


def write_all(location: SnapshotLocation) -> None:
    location.create()
    location.write_state("small", lambda file: file.write(b"x"), 100)
    location.write_state(
        "large", lambda file: [file.write(STATE[i : i + 10_000]) for i in range(0, len(STATE), 10_000)], 100
    )
    location.write_metadata(METADATA)


def calls_in_all(kind: str, uri: str) -> int:
    fs = FILESYSTEMS[kind]()
    fs.faults = Faults(10**6, False, OSError())
    write_all(SnapshotLocation(uri, fs=fs))
    return int(10**6 - fs.faults.left)


@pytest.mark.parametrize("forever", [False, True])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), RuntimeError("client library")])
@pytest.mark.parametrize("kind", ["local", "memory"])
def test_a_failure_at_any_call_leaves_no_half_written_metadata(
    tmp_path: Path, kind: str, error: Exception, forever: bool
) -> None:
    base = str(tmp_path) if kind == "local" else f"memory://{tmp_path.name}"
    total = calls_in_all(kind, f"{base}/chk-0")
    assert total > 12
    failures = 0
    for number in range(total):
        uri = f"{base}/chk-{number + 1}"
        fs = FILESYSTEMS[kind]()
        fs.faults = Faults(number, forever, error)
        try:
            write_all(SnapshotLocation(uri, fs=fs))
        except SnapshotError as raised:
            failures += 1
            assert f"chk-{number + 1}" in raised.message
            assert ("No space left" in raised.message) or ("client library" in raised.message)
        sound = SnapshotLocation(uri)
        if sound.exists:
            assert sound.read_metadata() == METADATA
        sound.discard()
        left, path = sound._fs, sound._path
        assert not left.exists(path), left.find(path)
    assert failures == total


def test_a_filesystem_without_hard_links_is_written_to_by_rename(tmp_path: Path) -> None:
    class NoLinks(LocalFileSystem):  # type: ignore[misc]
        cachable = False

        def link(self, src: str, dst: str, **options: Any) -> None:
            raise OSError(errno.EPERM, "Operation not permitted")

    location = SnapshotLocation(f"{tmp_path}/chk-1", fs=NoLinks())
    write_all(location)
    assert location.read_metadata() == METADATA
    with pytest.raises(SnapshotError, match="not overwritten"):
        location.write_metadata(b"other")
    assert location.read_metadata() == METADATA
    assert sorted(path.suffix for path in (tmp_path / "chk-1").iterdir()) == ["", ""]


def test_of_two_drivers_that_write_the_same_metadata_one_wins(tmp_path: Path) -> None:
    class Overtaken(LocalFileSystem):  # type: ignore[misc]
        cachable = False

        def link(self, src: str, dst: str, **options: Any) -> None:
            SnapshotLocation(f"{tmp_path}/chk-1").write_metadata(b"the other's")
            super().link(src, dst, **options)

    location = SnapshotLocation(f"{tmp_path}/chk-1", fs=Overtaken())
    location.create()
    with pytest.raises(SnapshotError, match="two drivers") as raised:
        location.write_metadata(METADATA)
    assert raised.value.where == f"file:{tmp_path}/chk-1/_metadata"
    assert location.read_metadata() == b"the other's"


@pytest.mark.parametrize(("passes", "still_there"), [(0, True), (1, False)])
def test_a_discard_that_fails_leaves_a_whole_snapshot_or_none(tmp_path: Path, passes: int, still_there: bool) -> None:
    location = SnapshotLocation(f"{tmp_path}/chk-1")
    write_all(location)
    fs = FILESYSTEMS["local"]()
    fs.faults = Faults(passes, True, OSError(errno.EIO, "Input/output error"))
    with pytest.raises(SnapshotError, match="Input/output error"):
        SnapshotLocation(location.uri, fs=fs).discard()
    assert location.exists is still_there
