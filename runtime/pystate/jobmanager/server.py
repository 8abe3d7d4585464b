"""The job manager's process: one per home, found by the address it leaves there."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import secrets
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import uvicorn

import pystate
from pystate.common.errors import PystateError
from pystate.common.home import PystateHome, read_json, write_json
from pystate.jobmanager.app import create_app
from pystate.jobmanager.dispatcher import Dispatcher
from pystate.jobmanager.driver_process import DriverLauncher
from pystate.jobmanager.request_guard import home_token
from pystate.jobmanager.supervised_job import now_ms

logger = logging.getLogger(__name__)

ALREADY_RUNNING_EXIT_CODE = 3
"""How the process ends that came second; whoever started it looks for the first one."""
_PORTS_TRIED = 100
_LOCK_WAIT_SECONDS = 5.0
_GRACE_SECONDS = 2


class AlreadyRunningError(PystateError):
    """Another job manager serves the home."""

    exit_code = ALREADY_RUNNING_EXIT_CODE


def serve(home: PystateHome, address: str, port: int, launcher: DriverLauncher | None = None) -> None:
    """Serve a home until SIGTERM or SIGINT. Jobs go on; the next job manager finds them again.

    Args:
        home: The folder of this installation.
        address: What to listen on.
        port: The port, or the next free one above it; 0 for any.
        launcher: Starts drivers.

    Raises:
        AlreadyRunningError: Another job manager serves the home.
        PystateError: The address can't be used.
    """
    with job_manager(home, address, port, launcher) as run:
        # uvicorn raises the signal again once it has shut down, which must not end us before the file is gone
        signal.signal(signal.SIGTERM, lambda _number, _frame: None)
        signal.signal(signal.SIGINT, lambda _number, _frame: None)
        run.server.run(sockets=[run.listener])


@dataclass(frozen=True)
class JobManagerRun:
    """A job manager that is ready to serve."""

    server: uvicorn.Server
    listener: socket.socket


@contextmanager
def job_manager(
    home: PystateHome, address: str, port: int, launcher: DriverLauncher | None = None
) -> Iterator[JobManagerRun]:
    """Own a home: lock it, take its jobs over, listen, and leave the address there for as long as this lasts."""
    home.root.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _only_one(home), bind(address, port) as listener:
        dispatcher = Dispatcher(home, launcher or DriverLauncher(home))
        dispatcher.recover()
        instance = secrets.token_hex(16)
        app = create_app(dispatcher, address=address, token=home_token(home), instance=instance)
        server = uvicorn.Server(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                lifespan="off",
                ws="none",
                server_header=False,
                timeout_graceful_shutdown=_GRACE_SECONDS,
            )
        )
        bound_port = int(listener.getsockname()[1])
        entry = {
            "pid": os.getpid(),
            "address": _reachable(address),
            "port": bound_port,
            "version": pystate.__version__,
            "started_at": now_ms(),
            "instance": instance,
        }
        write_json(home.jobmanager, entry, mode=0o600)
        logger.info("job manager %s serves %s on %s:%d", pystate.__version__, home.root, address, bound_port)
        try:
            yield JobManagerRun(server, listener)
        finally:
            dispatcher.close()
            _forget_address(home)
            logger.info("job manager ends")


@contextmanager
def bind(address: str, port: int) -> Iterator[socket.socket]:
    """Yield a listening socket on the port or the next free one; it is bound here, so nobody can take it in between.

    Raises:
        PystateError: The address is not ours, or all the ports tried are taken.
    """
    try:
        family, _, _, _, resolved = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        message = f"The address {address!r} can't be resolved: {error}."
        raise PystateError(message, where="rest.address") from error
    last = port if port == 0 else min(port + _PORTS_TRIED - 1, 65_535)
    for candidate in range(port, last + 1):
        listener = socket.socket(family)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((resolved[0], candidate))
            listener.listen(128)
        except OSError as error:
            listener.close()
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                continue
            message = f"The address {address!r} can't be listened on: {error}."
            raise PystateError(message, where="rest.address") from error
        with listener:
            yield listener
        return
    message = f"All ports from {port} to {last} are taken."
    raise PystateError(message, where="rest.port", hint="set rest.port to 0 for any free port")


@contextmanager
def _only_one(home: PystateHome) -> Iterator[None]:
    """Hold the home's lock. A holder that has left no address is about to start or to end, and gets a moment."""
    descriptor = os.open(home.jobmanager_lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        deadline = time.monotonic() + _LOCK_WAIT_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                other = (read_json(home.jobmanager) or {}).get("pid")
                if other is not None or time.monotonic() > deadline:
                    message = f"Another job manager (process {other}) serves this home."
                    raise AlreadyRunningError(message, where=str(home.root)) from error
                time.sleep(0.1)
        _forget_address(home)  # a killed one leaves its own
        yield
    finally:
        os.close(descriptor)


def _forget_address(home: PystateHome) -> None:
    with suppress(FileNotFoundError):
        home.jobmanager.unlink()


def _reachable(address: str) -> str:
    """Return an address that a client on this machine can connect to."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(address, address)  # noqa: S104 - not bound here
