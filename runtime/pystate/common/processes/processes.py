"""Processes of this machine: liveness, start times, signals."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path


def is_alive(pid: int) -> bool:
    """Return whether a process of that id exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def this_machine() -> str:
    """Return the identity of this machine and its boot, within which process ids are meaningful."""
    if sys.platform == "linux":
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            # containers on one kernel don't see each other's processes
            return f"{file.read().strip()}/{os.readlink('/proc/self/ns/pid')}"
    return socket.gethostname()


def started_at(pid: int) -> str | None:
    """Return the start time of a process, as a stable text that differs for other processes with the same id.

    None if there is none, or it has ended and waits for its parent to notice.
    """
    if sys.platform == "linux":
        try:
            fields = _fields_of(pid)
        except OSError:
            return None
        return None if fields[0] in "ZX" else f"{this_machine()}/{fields[19]}"
    said = _said_by_ps("lstart", pid)
    return f"{this_machine()}/{said}" if said else None


def is_ours(pid: int) -> bool:
    """Return whether a process runs as our user."""
    if sys.platform == "linux":
        try:
            status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return False
        # the folder itself is root's where the process can't be looked into
        users = next(line for line in status.splitlines() if line.startswith("Uid:")).split()[1:]
        return set(users) == {str(os.geteuid())}
    return _said_by_ps("uid", pid) == str(os.geteuid())


def signal_process(pid: int, started: str | None, number: int) -> bool:
    """Send a signal to the process that began at that time, not to a later one with its id; return whether it existed.

    Args:
        pid: Its id.
        started: What `started_at` said of it.
        number: The signal.
    """
    if not hasattr(os, "pidfd_open"):
        if started is None or started_at(pid) != started:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        return True
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        # checked after opening the descriptor, which keeps referring to the process that had the id then
        if started is None or started_at(pid) != started:
            return False
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, number)
        return True
    finally:
        os.close(descriptor)


def processes_of_session(session: int) -> list[int]:
    """Return the processes of a session; only on Linux, else none."""
    found = []
    for folder in Path("/proc").glob("[0-9]*") if sys.platform == "linux" else ():
        with contextlib.suppress(OSError):
            if os.getsid(int(folder.name)) == session:
                found.append(int(folder.name))
    return found


def can_run(pid: int) -> bool | None:
    """Return whether a process of this machine can run: it exists, and isn't stopped. None if unknown."""
    try:
        return _state_of(pid) not in "TtZX"
    except FileNotFoundError:
        return False if Path("/proc/self/stat").exists() else None
    except OSError:
        return None


def is_stopped(pid: int) -> bool:
    """Whether a process of this machine is stopped (SIGSTOP, a debugger), as far as known."""
    try:
        return _state_of(pid) in "Tt"
    except OSError:
        return False


def cpu_ticks(pid: int) -> int | None:
    """Return the CPU time of a process of this machine, in ticks; None if unknown."""
    try:
        user, system = _fields_of(pid)[11:13]
    except OSError:
        return None
    return int(user) + int(system)


def _said_by_ps(column: str, pid: int) -> str:
    command = ["/bin/ps", "-o", f"{column}=", "-p", str(pid)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603 - a fixed command


def _state_of(pid: int) -> str:
    return _fields_of(pid)[0]


def _fields_of(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the process's name."""
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return stat.rpartition(")")[2].split()
