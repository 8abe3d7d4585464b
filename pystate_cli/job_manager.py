"""Finds the job manager of a home, and starts one where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence

import pystate
from pystate.common.errors import ControlError, PystateError
from pystate.common.home import PystateHome, read_json
from pystate_cli.rest_client import NoJobManagerError, RestClient, parse_address

JOB_MANAGER_COMMAND = (sys.executable, "-m", "pystate.jobmanager")
VERSION = pystate.__version__
_ALREADY_RUNNING_EXIT_CODE = 3
_START_SECONDS = 60.0
_POLL_SECONDS = 0.05
_LOG_LINES = 10


class VersionMismatchError(ControlError):
    """The job manager is of another version than this command."""


def find_job_manager(home: PystateHome, address: str | None, timeout: float) -> RestClient:
    """Return a client of the job manager that runs.

    Args:
        home: The folder of this installation.
        address: The value of `-m`; None looks into the home.
        timeout: Seconds an answer may take.

    Raises:
        NoJobManagerError: The home has none.
        VersionMismatchError: It is of another version.
    """
    if address is not None:
        host, port = parse_address(address)
        client = RestClient(host, port, timeout=timeout, token=_token(home))
        hint = "call the pystate that it came with, or another one with -m"
        _check_version(client.get("/config"), f"job manager at {client.address}", hint)
        return client
    running = _healthy(home, timeout)
    if running is None:
        entry = read_json(home.jobmanager)
        if entry is not None and not _is_alive(entry["pid"]):  # one that was told to end takes its address with it
            message = f"The job manager of this home (process {entry['pid']}) is dead."
            hint = "the next pystate run starts one, which finds the jobs again"
            raise NoJobManagerError(message, where=str(home.root), hint=hint)
        message = f"No job manager is running for this home ({home.root})."
        raise NoJobManagerError(message, hint="pystate run starts one; PYSTATE_HOME names another home")
    return running


def ensure_job_manager(
    home: PystateHome, rest_address: str, rest_port: int, timeout: float, command: Sequence[str] = JOB_MANAGER_COMMAND
) -> RestClient:
    """Return a client of the home's job manager; start one where none answers.

    Raises:
        PystateError: It could not be started.
        VersionMismatchError: The one that runs is of another version.
    """
    running = _healthy(home, timeout)
    if running is not None:
        return running
    home.root.mkdir(parents=True, exist_ok=True, mode=0o700)
    log_start = home.jobmanager_log.stat().st_size if home.jobmanager_log.exists() else 0
    command = [*command, "--home", str(home.root), "--address", rest_address, "--port", str(rest_port)]
    process = _start(command, home)
    deadline = time.monotonic() + _START_SECONDS
    while True:
        ended = process.poll()
        running = _healthy(home, timeout)  # asked after poll(): another run's job manager may have been faster
        if running is not None:
            if ended is None and (read_json(home.jobmanager) or {}).get("pid") != process.pid:
                process.terminate()  # it waits for a lock that the faster one holds
            return running
        if ended == _ALREADY_RUNNING_EXIT_CODE:
            process = _start(command, home)  # the other one may not come up
        elif ended is not None or time.monotonic() > deadline:
            what = "did not come up in time" if ended is None else f"ended at once with exit code {ended}"
            message = f"The job manager {what}."
            lines = _last_lines(home, log_start)
            raise PystateError(f"{message}\n{lines}" if lines else message, hint=f"see {home.jobmanager_log}")
        time.sleep(_POLL_SECONDS)


def _healthy(home: PystateHome, timeout: float) -> RestClient | None:
    """Return a client if the home's job manager answers; a stale file, or a foreign program on its port, is none."""
    entry = read_json(home.jobmanager)
    if entry is None or not _is_alive(entry["pid"]):
        return None
    # who answers must show the instance's mark before it gets to see the token
    probe = RestClient(entry["address"], entry["port"], timeout=timeout, instance=entry["instance"])
    try:
        config = probe.get("/config")
    except NoJobManagerError:
        return None
    hint = f"kill {entry['pid']} ends it, its jobs go on; the next pystate run starts one of version {VERSION}"
    _check_version(config, f"process {entry['pid']} at {probe.address}", hint)
    return _client(home, entry, timeout)


def _check_version(config: dict[str, object], where: str, hint: str) -> None:
    version = config.get("pystate-version")
    if version != VERSION:
        named = f"has version {version}" if version else "is not one of pystate"
        message = f"The job manager {named}; this command has version {VERSION}."
        raise VersionMismatchError(message, where=where, hint=hint)


def _client(home: PystateHome, entry: dict[str, object], timeout: float) -> RestClient:
    return RestClient(
        str(entry["address"]),
        int(str(entry["port"])),
        timeout=timeout,
        token=_token(home),
        instance=str(entry["instance"]),
    )


def _token(home: PystateHome) -> str | None:
    try:
        return home.token.read_text().strip()
    except FileNotFoundError:
        return None


def _start(command: list[str], home: PystateHome) -> subprocess.Popen[bytes]:
    environment = dict(os.environ)
    if environment.get("PYTHONPATH"):
        # it starts in another folder, where relative entries would mean something else
        entries = environment["PYTHONPATH"].split(os.pathsep)
        environment["PYTHONPATH"] = os.pathsep.join(os.path.abspath(entry) for entry in entries)
    with home.jobmanager_log.open("ab") as log:
        return subprocess.Popen(  # noqa: S603 - our own module
            command,
            cwd=home.root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _last_lines(home: PystateHome, start: int) -> str:
    with home.jobmanager_log.open("rb") as log:
        log.seek(start)
        lines = log.read().decode(errors="replace").splitlines()
    return "\n".join(f"  | {line}" for line in lines[-_LOG_LINES:])


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
