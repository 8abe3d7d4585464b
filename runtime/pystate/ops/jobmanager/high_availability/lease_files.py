"""The lease as files: the file with the highest token names the leader, and the file of a token is created only once.

<token>.leader      created atomically by the one that takes the lease: its address
<token>.renewed     replaced by the leader at each renewal
<token>.complete    it has taken over all jobs
<token>.released    it has given the lease back
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
from pathlib import Path
from typing import Any, Protocol

from pystate.common.files.home import read_json, write_json
from pystate.common.files.job_files import NO_SPACE
from pystate.ops.jobmanager.high_availability.lease import ObservedLease

_FILE = re.compile(r"(\d{20})\.(leader|renewed|complete|released)")


def host_and_port(entry: dict[str, Any]) -> str:
    """Return the address in a leader's entry as `host:port`."""
    host = str(entry["address"])
    return f"[{host}]:{entry['port']}" if ":" in host else f"{host}:{entry['port']}"


class LeaseStore(Protocol):
    """The storage of the lease. Any method may raise OSError."""

    def highest_token(self) -> int:
        """Return the token of the latest leader; 0 if there never was one."""

    def observed(self) -> ObservedLease | None:
        """Return the latest leader's last renewal."""

    def take(self, token: int, entry: dict[str, Any]) -> bool:
        """Become the leader with a token; return False if another one was faster."""

    def renew(self, token: int) -> None:
        """Renew the lease."""

    def complete(self, token: int) -> None:
        """Record that the leader has taken over all jobs."""

    def latest_complete(self) -> int | None:
        """Return the token of the latest leader that took over all jobs."""

    def release(self, token: int) -> None:
        """Release the lease."""

    def leader(self) -> dict[str, Any] | None:
        """Return the address of the latest leader, with its `token`; None if it has released the lease."""


def _overwrite(file: Path, data: bytes) -> None:
    with file.open("r+b", buffering=0) as opened:
        opened.write(data)
        os.fsync(opened.fileno())


class LeaseFiles:
    """A lease in a folder of a file system with atomic hard links.

    Args:
        folder: The folder, which exists.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def highest_token(self) -> int:
        """Return the token of the latest leader; 0 if there never was one."""
        return max(self._tokens("leader"), default=0)

    def observed(self) -> ObservedLease | None:
        """Return the latest leader's last renewal."""
        token = self.highest_token()
        if token == 0:
            return None
        mark = (read_json(self._file(token, "renewed")) or {}).get("mark", "")
        return ObservedLease(token, mark, self._file(token, "released").exists())

    def take(self, token: int, entry: dict[str, Any]) -> bool:
        """Become the leader with a token; return False if another one was faster."""
        draft = self._folder / f".{secrets.token_hex(8)}.draft"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(json.dumps(entry, indent=1, sort_keys=True).encode())
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(OSError):
                os.link(draft, self._file(token, "leader"))
            # over NFS, creating a link may report an error although it succeeded, and vice versa for a retry
            if draft.stat().st_nlink != 2:
                return False
        finally:
            draft.unlink()
        # files of low tokens are deleted: a candidate that slept may create one that existed before
        return self.highest_token() == token

    def renew(self, token: int) -> None:
        """Renew the lease; in place if the disk has no space for another file.

        All marks have the same length, so that a concurrent reader sees a new one, too.
        """
        file, mark = self._file(token, "renewed"), {"mark": secrets.token_hex(8)}
        try:
            write_json(file, mark, mode=0o600)
        except OSError as error:
            if error.errno not in NO_SPACE or not file.exists():
                raise
            _overwrite(file, json.dumps(mark, indent=1, sort_keys=True).encode())

    def complete(self, token: int) -> None:
        """Record that the leader has taken over all jobs; delete the files of earlier leaders."""
        write_json(self._file(token, "complete"), {}, mode=0o600)
        for name in os.listdir(self._folder):
            match = _FILE.fullmatch(name)
            if match and int(match[1]) < token:
                (self._folder / name).unlink(missing_ok=True)

    def latest_complete(self) -> int | None:
        """Return the token of the latest leader that took over all jobs."""
        return max(self._tokens("complete"), default=None)

    def release(self, token: int) -> None:
        """Release the lease."""
        write_json(self._file(token, "released"), {}, mode=0o600)

    def leader(self) -> dict[str, Any] | None:
        """Return the address of the latest leader, with its `token`; None if it has released the lease."""
        token = self.highest_token()
        if token == 0 or self._file(token, "released").exists():
            return None
        entry = read_json(self._file(token, "leader"))
        return None if entry is None else {**entry, "token": token}

    def _tokens(self, kind: str) -> list[int]:
        matches = map(_FILE.fullmatch, os.listdir(self._folder))
        return [int(match[1]) for match in matches if match and match[2] == kind]

    def _file(self, token: int, kind: str) -> Path:
        return self._folder / f"{token:020d}.{kind}"
