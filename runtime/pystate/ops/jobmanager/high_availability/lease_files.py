"""The lease as files: who leads is said by the file with the highest token, and a file of a token is made only once.

<token>.leader      made atomically by the one that takes the lease: where it can be reached
<token>.renewed     replaced by that one at each renewal
<token>.complete    it has taken all jobs over
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
    """Return the address in a leader's entry as a URL has it."""
    host = str(entry["address"])
    return f"[{host}]:{entry['port']}" if ":" in host else f"{host}:{entry['port']}"


class LeaseStore(Protocol):
    """Where the lease is kept. Any method may raise OSError."""

    def highest_token(self) -> int:
        """Return the token of the latest leader; 0 where there never was one."""

    def observed(self) -> ObservedLease | None:
        """Return what the latest leader has written last."""

    def take(self, token: int, entry: dict[str, Any]) -> bool:
        """Become the leader with a token; return False where another one has been faster."""

    def renew(self, token: int) -> None:
        """Renew the lease."""

    def complete(self, token: int) -> None:
        """Write down that the leader has taken all jobs over."""

    def latest_complete(self) -> int | None:
        """Return the token of the latest leader that took all jobs over."""

    def release(self, token: int) -> None:
        """Give the lease back."""

    def leader(self) -> dict[str, Any] | None:
        """Return where the latest leader can be reached, with its `token`; None where it has given the lease back."""


def _overwrite(file: Path, data: bytes) -> None:
    with file.open("r+b", buffering=0) as opened:
        opened.write(data)
        os.fsync(opened.fileno())


class LeaseFiles:
    """A lease in a folder of a file system with atomic hard links.

    Args:
        folder: The folder; it is there.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def highest_token(self) -> int:
        """Return the token of the latest leader; 0 where there never was one."""
        return max(self._tokens("leader"), default=0)

    def observed(self) -> ObservedLease | None:
        """Return what the latest leader has written last."""
        token = self.highest_token()
        if token == 0:
            return None
        mark = (read_json(self._file(token, "renewed")) or {}).get("mark", "")
        return ObservedLease(token, mark, self._file(token, "released").exists())

    def take(self, token: int, entry: dict[str, Any]) -> bool:
        """Become the leader with a token; return False where another one has been faster."""
        draft = self._folder / f".{secrets.token_hex(8)}.draft"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(json.dumps(entry, indent=1, sort_keys=True).encode())
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(OSError):
                os.link(draft, self._file(token, "leader"))
            # a link over NFS may report an error although it was made, and the other way round for the one that retries
            if draft.stat().st_nlink != 2:
                return False
        finally:
            draft.unlink()
        # files of low tokens are deleted: a candidate that slept may make one that was there before
        return self.highest_token() == token

    def renew(self, token: int) -> None:
        """Renew the lease; in place where the disk has no room for another file.

        Each mark has as many bytes as the one before, so that whoever reads while it is written sees a new one, too.
        """
        file, mark = self._file(token, "renewed"), {"mark": secrets.token_hex(8)}
        try:
            write_json(file, mark, mode=0o600)
        except OSError as error:
            if error.errno not in NO_SPACE or not file.exists():
                raise
            _overwrite(file, json.dumps(mark, indent=1, sort_keys=True).encode())

    def complete(self, token: int) -> None:
        """Write down that the leader has taken all jobs over; what earlier ones have left is deleted."""
        write_json(self._file(token, "complete"), {}, mode=0o600)
        for name in os.listdir(self._folder):
            match = _FILE.fullmatch(name)
            if match and int(match[1]) < token:
                (self._folder / name).unlink(missing_ok=True)

    def latest_complete(self) -> int | None:
        """Return the token of the latest leader that took all jobs over."""
        return max(self._tokens("complete"), default=None)

    def release(self, token: int) -> None:
        """Give the lease back."""
        write_json(self._file(token, "released"), {}, mode=0o600)

    def leader(self) -> dict[str, Any] | None:
        """Return where the latest leader can be reached, with its `token`; None where it has given the lease back."""
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
