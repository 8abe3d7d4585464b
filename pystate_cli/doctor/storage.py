"""Checks of the configured storage: it is reachable, and a file can be written, read and deleted."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pystate.common.errors import PystateError
from pystate.connectors.finding import Finding, fail, ok, warn

if TYPE_CHECKING:
    from pystate.common.configuration.configuration import Configuration

_CONTENT = b"pystate doctor was here\n"
_SKEW_SECONDS = 10
KEYS = (
    ("checkpoints", "execution.checkpointing.dir"),
    ("savepoints", "execution.checkpointing.savepoint-dir"),
    ("high availability", "high-availability.storageDir"),
)


def check_storage(configuration: Configuration) -> Iterator[Finding]:
    """Check every configured place, and the log-ins that they need."""
    logins: set[str] = set()
    for name, key in KEYS:
        place = configuration.get_string(key, "")
        if place:
            yield _try(name, key, place)
            yield from _kerberos(place, logins)
        elif name == "checkpoints":
            yield warn(name, f"{key} is not set: checkpoints stay in the driver's memory", f"pystate config {key}")
        elif name == "savepoints":
            yield warn(name, f"{key} is not set: each savepoint needs a directory", f"pystate config {key}")


def local_places(configuration: Configuration) -> list[str]:
    """Return the configured places that are local folders."""
    places = [configuration.get_string(key, "") for _, key in KEYS]
    return [place.removeprefix("file://").removeprefix("file:") for place in places if place.startswith(("/", "file:"))]


def _try(name: str, key: str, place: str) -> Finding:
    from pystate.core.snapshot.storage.snapshot_location import parse_location

    try:
        fs, path, _ = parse_location(place)
    except PystateError as error:
        return fail(name, f"{place}: {error.message}", error.hint or f"pystate config {key}")
    probe = f"{path.rstrip('/')}/.pystate-doctor-{secrets.token_hex(6)}"
    begun, step = time.monotonic(), "made"
    made: list[str] = []
    try:
        made = _missing(fs, path)
        fs.makedirs(path, exist_ok=True)
        step = "written to"
        before = time.time()
        with fs.open(probe, "wb") as file:
            file.write(_CONTENT)
        after = time.time()
        step = "read from"
        with fs.open(probe, "rb") as file:
            found = file.read()
        skew = _skew(fs, probe, before, after)
        step = "deleted from"
        fs.rm_file(probe)
    except Exception as error:  # each file system has its own errors
        with contextlib.suppress(Exception):
            fs.rm_file(probe)
        _remove(fs, made)
        hint = error.hint if isinstance(error, PystateError) else None
        return fail(
            name, f"{place} can't be {step}: {_first_line(error)}", hint or f"check {key}, its rights and credentials"
        )
    _remove(fs, made)
    if found != _CONTENT:
        return fail(name, f"{place} gives back other bytes than were written", f"set {key} to another place")
    took = f"{(time.monotonic() - begun) * 1000:.0f} ms"
    if abs(skew) > _SKEW_SECONDS:
        text = f"{place} can be written, read and deleted; its clock is {skew:+.0f} s off ours"
        return warn(name, text, "set the clocks: leases and expiry compare them")
    return ok(name, f"{place} can be written, read and deleted ({took})")


def _kerberos(place: str, seen: set[str]) -> Iterator[Finding]:
    """Check the log-in to Kerberos of a place that asks for one, unless another place has it, too."""
    from pystate.core.snapshot.storage.snapshot_location import parse_location

    try:
        login = getattr(parse_location(place)[0], "kerberos_login", None)
    except PystateError:  # told already
        return
    if login is None or login.by in seen:
        return
    seen.add(login.by)
    try:
        found = login.login()
    except PystateError as error:
        yield fail("kerberos", f"{login.by}: {error.message}", error.hint)
        return
    yield ok("kerberos", f"{found.name}, by {login.by}; this ticket is good for {found.seconds / 60:.0f} minutes")


def _missing(fs: Any, path: str) -> list[str]:
    """Return the missing folders, deepest first; the check must not leave any."""
    missing = []
    while path.strip("/") and not fs.exists(path):
        missing.append(path)
        path = path.rstrip("/").rpartition("/")[0]
    return missing


def _remove(fs: Any, folders: list[str]) -> None:
    for folder in folders:
        with contextlib.suppress(Exception):  # they aren't empty any more, or there are no folders
            fs.rmdir(folder)


def _skew(fs: Any, path: str, before: float, after: float) -> float:
    """Return the clock skew of the storage in seconds; 0 if unknown."""
    try:
        modified = fs.modified(path)
    except Exception:  # not every file system has it
        return 0.0
    stamp = modified.timestamp() if isinstance(modified, datetime) else float(modified)
    # some report it in whole seconds
    return stamp - before if stamp < before - 1 else stamp - after if stamp > after + 1 else 0.0


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
