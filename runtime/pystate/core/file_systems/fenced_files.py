"""Fenced files: small files written by several processes in turn, on a storage with exclusive creation of files.

Files are never replaced: each version has its own name, `<name>@<token>-<number>`, and the highest one counts. Tokens grow
with each leader. So late writes of a replaced process are never read.
"""

from __future__ import annotations

import contextlib
import logging
import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pystate.core.file_systems.file_stores import store_of
from pystate.core.file_systems.places import join

logger = logging.getLogger(__name__)

_VERSION = re.compile(r"([A-Za-z0-9._-]+)@(\d{20})-(\d{20})")
_ATTEMPTS = 20


@dataclass(frozen=True, order=True)
class _Version:
    """One version of a file; versions of one name are ordered by precedence."""

    name: str
    token: int
    number: int

    def __str__(self) -> str:
        return f"{self.name}@{self.token:020d}-{self.number:020d}"


class FencedFiles:
    """The fenced files in one folder. Thread-safe.

    Args:
        fs: The filesystem.
        folder: The path of the folder on it.
        token: The fencing token of this writer: versions with a higher token take precedence.
    """

    def __init__(self, fs: Any, folder: str, token: int) -> None:
        self._fs = fs
        self._store = store_of(fs)
        self._folder = folder
        self._token = token
        self._lock = threading.Lock()
        self._cached: dict[str, tuple[_Version, bytes]] = {}  # a version never changes

    def write(self, name: str, data: bytes) -> None:
        """Write a file with this content, unless a process with a higher token has written it.

        Raises:
            OSError: The storage refuses it.
        """
        with self._lock:
            for _ in range(_ATTEMPTS):
                older = self._versions(name)  # driver and job manager write in turn, under one token
                number = max((version.number for version in older if version.token == self._token), default=0) + 1
                version = _Version(name, self._token, number)
                try:
                    self._store.create(join(self._folder, str(version)), data)
                except FileExistsError:
                    continue
                self._delete(one for one in older if one < version)
                return
        message = f"{name} in {self._folder} is written by others all the time."
        raise OSError(message)

    def read(self, name: str) -> bytes:
        """Return the effective content.

        Raises:
            FileNotFoundError: There is none.
            OSError: It can't be read.
        """
        for _ in range(_ATTEMPTS):
            latest = max(self._versions(name), default=None)
            if latest is None:
                raise FileNotFoundError(join(self._folder, name))
            cached = self._cached.get(name)
            if cached is not None and cached[0] == latest:
                return cached[1]
            try:
                data: bytes = self._fs.cat_file(join(self._folder, str(latest)))
            except FileNotFoundError:  # replaced in between
                continue
            self._cached[name] = (latest, data)
            return data
        message = f"{name} in {self._folder} is replaced faster than it can be read."
        raise OSError(message)

    def read_all(self, beginning: str = "") -> dict[str, bytes]:
        """Return the effective contents by name, from one listing of the folder.

        Args:
            beginning: How the names begin of the files that are read.

        Raises:
            OSError: One can't be read.
        """
        found: dict[str, bytes] = {}
        versions = (version for version in sorted(self._versions(None)) if version.name.startswith(beginning))
        for version in {version.name: version for version in versions}.values():
            with contextlib.suppress(FileNotFoundError):  # deleted in between
                try:
                    found[version.name] = self._fs.cat_file(join(self._folder, str(version)))
                except FileNotFoundError:  # or replaced
                    found[version.name] = self.read(version.name)
        return found

    def delete(self, name: str) -> None:
        """Delete a file; does nothing if there is none."""
        with self._lock:
            for version in sorted(self._versions(name)):
                with contextlib.suppress(FileNotFoundError):
                    self._fs.rm_file(join(self._folder, str(version)))

    def names(self) -> list[str]:
        """Return the names of the files."""
        return sorted({version.name for version in self._versions(None)})

    def make_folder(self) -> None:
        """Make the folder."""
        self._store.make_directory(self._folder)

    def delete_folder(self) -> None:
        """Delete the folder and all files in it; does nothing if there is none."""
        with contextlib.suppress(FileNotFoundError):
            self._store.delete_directory(self._folder)

    def _versions(self, name: str | None) -> list[_Version]:
        try:
            entries = self._fs.ls(self._folder, detail=False)
        except FileNotFoundError:
            return []
        matches = (_VERSION.fullmatch(entry.rpartition("/")[2]) for entry in entries)
        found = (_Version(match[1], int(match[2]), int(match[3])) for match in matches if match)
        return [version for version in found if name is None or version.name == name]

    def _delete(self, versions: Iterable[_Version]) -> None:
        for version in versions:
            try:
                self._fs.rm_file(join(self._folder, str(version)))
            except FileNotFoundError:
                pass
            except OSError as error:  # it counts for nothing any more
                logger.info("%s can't be deleted: %s", version, error)
