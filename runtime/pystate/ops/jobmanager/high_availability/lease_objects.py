"""The lease on object storage and HDFS, where files aren't replaced in place, but only created once and deleted.

<token>.leader           created by the one that takes the lease, which the storage permits only once: its address
<token>.renewed-<mark>   a new one at each renewal; the previous one is deleted
<token>.complete         it has taken over all jobs
<token>.released         it has given the lease back
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
from typing import Any

from pystate.core.file_systems.file_stores import store_of
from pystate.core.file_systems.places import join
from pystate.ops.jobmanager.high_availability.lease import ObservedLease

_FILE = re.compile(r"(\d{20})\.(leader|complete|released|renewed-[0-9a-f]{16})")
_DRAFT = "draft"


class LeaseObjects:
    """A lease in a folder of a filesystem that supports creating a file only once.

    Args:
        fs: The filesystem.
        folder: The path of the folder on it.
    """

    def __init__(self, fs: Any, folder: str) -> None:
        self._fs = fs
        self._store = store_of(fs)
        self._folder = folder
        self._renewed: str | None = None  # the own latest renewal

    def highest_token(self) -> int:
        """Return the token of the latest leader; 0 if there never was one."""
        return max(self._tokens("leader"), default=0)

    def observed(self) -> ObservedLease | None:
        """Return the latest leader's last renewal."""
        files = self._files()
        token = max((token for token, kind in files if kind == "leader"), default=0)
        if token == 0:
            return None
        kinds = sorted(kind for other, kind in files if other == token)
        return ObservedLease(token, ",".join(kind for kind in kinds if kind.startswith("renewed-")), "released" in kinds)

    def take(self, token: int, entry: dict[str, Any]) -> bool:
        """Become the leader with a token; return False if another one was faster."""
        data = json.dumps({**entry, _DRAFT: secrets.token_hex(8)}, indent=1, sort_keys=True).encode()
        path = self._path(token, "leader")
        try:
            self._store.create(path, data)
        except FileExistsError:
            # the client may have sent its request twice, and the answer to the second may report the first
            if not self._store.may_repeat or self._fs.cat_file(path) != data:
                return False
        # files of low tokens are deleted: a candidate that slept may create one that existed before
        return self.highest_token() == token

    def renew(self, token: int) -> None:
        """Renew the lease."""
        earlier, name = self._renewed, self._path(token, f"renewed-{secrets.token_hex(8)}")
        self._store.create(name, b"{}")
        self._renewed = name
        if earlier is not None:
            self._delete(earlier)

    def complete(self, token: int) -> None:
        """Record that the leader has taken over all jobs; delete the files of earlier leaders."""
        self._make(token, "complete")
        for earlier, kind in self._files():
            if earlier < token:
                self._delete(self._path(earlier, kind))

    def latest_complete(self) -> int | None:
        """Return the token of the latest leader that took over all jobs."""
        return max(self._tokens("complete"), default=None)

    def release(self, token: int) -> None:
        """Release the lease."""
        self._make(token, "released")

    def leader(self) -> dict[str, Any] | None:
        """Return the address of the latest leader, with its `token`; None if it has released the lease."""
        files = self._files()
        token = max((token for token, kind in files if kind == "leader"), default=0)
        if token == 0 or (token, "released") in files:
            return None
        try:
            entry = json.loads(self._fs.cat_file(self._path(token, "leader")))
        except FileNotFoundError:  # the next leader has deleted it
            return None
        entry.pop(_DRAFT)
        return {**entry, "token": token}

    def _make(self, token: int, kind: str) -> None:
        with contextlib.suppress(FileExistsError):
            self._store.create(self._path(token, kind), b"{}")

    def _delete(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(path)

    def _tokens(self, kind: str) -> list[int]:
        return [token for token, found in self._files() if found == kind]

    def _files(self) -> list[tuple[int, str]]:
        try:
            entries = self._fs.ls(self._folder, detail=False)
        except FileNotFoundError:
            return []
        matches = (_FILE.fullmatch(entry.rpartition("/")[2]) for entry in entries)
        return [(int(match[1]), match[2]) for match in matches if match]

    def _path(self, token: int, kind: str) -> str:
        return join(self._folder, f"{token:020d}.{kind}")
