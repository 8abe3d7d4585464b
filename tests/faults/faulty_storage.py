"""A local filesystem that fails on demand: `faulty://<absolute path>`, known to every process that imports this module.

The faults are those of a `Faults` whose folder is called `.faults` and stands in a folder above the file in question.
"""

from __future__ import annotations

import errno
import time
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from tests.faults.injection import Action, Fault, Faults, Step

FAULTS = ".faults"
_SCHEME = "faulty://"


def _claim(path: str, step: Step) -> Fault | None:
    folders = Path(path).parents
    found = next((folder / FAULTS for folder in folders if (folder / FAULTS).is_dir()), None)
    return None if found is None else Faults(found).claim(step)


def _pass(path: str, step: Step) -> None:
    if _claim(path, step) is not None:
        raise OSError(errno.EIO, f"injected at {step.value}")


class FaultyFile:
    """A file that is written to as its fault allows."""

    def __init__(self, file: Any, path: str, fault: Fault | None) -> None:
        self._file = file
        self._path = path
        self._fault = fault
        self._left = 0 if fault is None else fault.amount

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        if self._fault is None:
            return int(self._file.write(view))
        if self._fault.action is Action.SLOW:
            time.sleep(self._fault.amount / 1000)
            return int(self._file.write(view))
        taken = view[: self._left]
        self._left -= len(taken)
        self._file.write(taken)
        if len(taken) < len(view) and self._fault.action is not Action.TORN:
            full = self._fault.action is Action.FULL
            raise OSError(errno.ENOSPC if full else errno.EIO, "No space left on device" if full else "injected at write")
        return len(view)

    def flush(self) -> None:
        self._file.flush()

    def fileno(self) -> int:
        _pass(self._path, Step.SYNC_FILE)
        return int(self._file.fileno())

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> FaultyFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class FaultyFileSystem(LocalFileSystem):  # type: ignore[misc]
    """The local filesystem, with faults."""

    protocol = "faulty"
    cachable = False

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        return LocalFileSystem._strip_protocol(str(path).removeprefix(_SCHEME))

    def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        file = super().open(path, mode, **options)
        return FaultyFile(file, path, _claim(path, Step.WRITE)) if "w" in mode else file

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        _pass(path, Step.MAKE_DIRECTORY)
        super().makedirs(path, exist_ok=exist_ok)

    def mv(self, path1: str, path2: str, **options: Any) -> None:
        _pass(path2, Step.RENAME)
        super().mv(path1, path2, **options)

    def ls(self, path: str, detail: bool = False, **options: Any) -> Any:
        _pass(f"{path}/.", Step.LIST)
        return super().ls(path, detail=detail, **options)

    def info(self, path: str, **options: Any) -> Any:
        if str(path).endswith("_metadata"):
            _pass(path, Step.LOOK)
        return super().info(path, **options)

    def exists(self, path: str, **options: Any) -> bool:
        """Answer as filesystems do that have no better way: whatever fails, it isn't there."""
        try:
            self.info(path, **options)
        except Exception:
            return False
        return True

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        _pass(str(path), Step.DELETE)
        super().rm(path, recursive=recursive, maxdepth=maxdepth)


fsspec.register_implementation("faulty", FaultyFileSystem, clobber=True)
