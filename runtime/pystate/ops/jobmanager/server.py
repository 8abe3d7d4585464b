"""The job manager's process: one per home, found by the address that it writes there."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import secrets
import signal
import socket
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from starlette.types import ASGIApp

import pystate
from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.job_manager_options import JobManagerOptions
from pystate.common.configuration.groups.security_options import SecurityOptions
from pystate.common.errors import PystateError
from pystate.common.files.folders import make_private_folder
from pystate.common.files.home import PystateHome, write_file_atomically, write_json
from pystate.common.files.home_token import home_token
from pystate.common.files.job_manager_entry import REWRITE_SECONDS, DamagedAddressError, is_damaged, read_job_manager
from pystate.common.files.private_home import close_to_others
from pystate.common.files.regular_files import NotRegularError, open_to_write
from pystate.common.processes.processes import started_at, this_machine
from pystate.common.time import current_time_ms
from pystate.ops.jobmanager.dispatcher import Dispatcher
from pystate.ops.jobmanager.drivers.class_data_trainer import ClassDataTrainer
from pystate.ops.jobmanager.drivers.driver_heartbeat import HeartbeatTerms
from pystate.ops.jobmanager.drivers.driver_process import DriverLauncher
from pystate.ops.jobmanager.high_availability.leader_gate import LeaderGate
from pystate.ops.jobmanager.high_availability.lease import LeaseTerms
from pystate.ops.jobmanager.high_availability.shared_storage import HighAvailabilityStorage, shared_storage
from pystate.ops.jobmanager.high_availability.standby import StandbyJobManager
from pystate.ops.jobmanager.job_store import JobStoreTerms
from pystate.ops.jobmanager.leadership import Leadership
from pystate.ops.jobmanager.rest.app import ROUTES
from pystate.ops.jobmanager.spare_drivers.spare_drivers import SpareDrivers
from pystate.ops.jobmanager.web.rest_connections import RestConnections, RestListener
from pystate.ops.jobmanager.web.rest_security import RestSecurity
from pystate.ops.jobmanager.web.rest_server import RestConfig, RestServer
from pystate.ops.jobmanager.web.url_prefix import UrlPrefix, check_url_prefix
from pystate.ops.jobmanager.web_application import create_app

logger = logging.getLogger(__name__)

ALREADY_RUNNING_EXIT_CODE = 3
"""How the process ends that came second; whoever started it looks for the first one."""
_PORTS_TRIED = 100
_LOCK_WAIT_SECONDS = 5.0
_SIGNAL_LOOK_S = 0.2


class AlreadyRunningError(PystateError):
    """Another job manager serves the home."""

    exit_code = ALREADY_RUNNING_EXIT_CODE


def serve(
    home: PystateHome,
    address: str,
    port: int,
    launcher: DriverLauncher | None = None,
    configuration: Configuration | None = None,
) -> None:
    """Serve a home until SIGTERM or SIGINT. Jobs continue; the next job manager finds them again.

    Args:
        home: The folder of this installation.
        address: The address to listen on.
        port: The port, or the next free one above it; 0 for any.
        launcher: Starts drivers.
        configuration: The options of the job manager; None for the defaults.

    Raises:
        AlreadyRunningError: Another job manager serves the home.
        PystateError: The address or the storage for high availability can't be used.
    """
    running: list[JobManagerRun] = []

    def end(_number: int, _frame: FrameType | None) -> None:
        if not running:
            raise SystemExit(0)  # it still starts: what it has written so far is removed on the way out
        running[0].server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    with job_manager(home, address, port, launcher, configuration) as run:
        running.append(run)
        # the end of this process waits for no daemon, and the server's threads are daemons as theirs is: some may wait for a
        # driver that hangs, while the next job manager takes care of its job
        serving = threading.Thread(target=run.server.run, kwargs={"sockets": [run.listener]}, name="rest", daemon=True)
        serving.start()
        while serving.is_alive():  # a signal may come to another thread: that wakes nobody whose wait has no end
            serving.join(_SIGNAL_LOOK_S)


@dataclass(frozen=True)
class JobManagerRun:
    """A job manager that is ready to serve."""

    server: uvicorn.Server
    listener: socket.socket


@contextmanager
def job_manager(
    home: PystateHome,
    address: str,
    port: int,
    launcher: DriverLauncher | None = None,
    configuration: Configuration | None = None,
) -> Iterator[JobManagerRun]:
    """Own a home: lock it, take over its jobs, listen, and publish the address in it meanwhile."""
    configuration = configuration or Configuration()
    storage = shared_storage(configuration)
    make_private_folder(home.root)
    with _only_one(home):
        for sentence in close_to_others(home):
            logger.warning("%s", sentence)
        if storage is not None:
            # clients of the home use the same token as clients of the storage
            write_file_atomically(home.token, f"{storage.prepare()}\n".encode(), mode=0o600)
        security = RestSecurity.of(configuration, home_token(home))
        security.check_address(address)
        if security.warning is not None:
            logger.warning("%s", security.warning)
        prefix = configuration.get(SecurityOptions.REST_URL_PREFIX)
        check_url_prefix(prefix, (path for route in ROUTES for path in (*route.paths, "/ui")))
        with bind(address, port) as listener:
            entry = {
                "pid": os.getpid(),
                "address": _reachable(address),
                "port": int(listener.getsockname()[1]),
                "scheme": security.scheme,
                "ca": configuration.get(SecurityOptions.SSL_REST_CA),
                "version": pystate.__version__,
                "started": started_at(os.getpid()),
                "started_at": current_time_ms(),
                "instance": secrets.token_hex(16),
            }
            jobs = _Jobs(home, launcher or DriverLauncher(home), configuration, security, address, entry)
            with jobs.alone() if storage is None else jobs.with_stand_ins(storage) as app:
                connections = RestConnections(configuration.get(SecurityOptions.REST_MAX_CONNECTIONS))
                served = UrlPrefix(app, prefix)
                server = RestServer(RestConfig(served, connections, **security.server_options()))
                jobs.server = server
                with _known(home, entry), RestListener(listener, connections) as bounded:
                    logger.info("job manager %s serves %s on %s:%d", pystate.__version__, home.root, address, entry["port"])
                    yield JobManagerRun(server, bounded)


class _Jobs:
    """Creates the web application of a job manager.

    Attributes:
        server: The server, once it exists.
    """

    def __init__(
        self,
        home: PystateHome,
        launcher: DriverLauncher,
        configuration: Configuration,
        security: RestSecurity,
        address: str,
        entry: dict[str, Any],
    ) -> None:
        self._home = home
        self._launcher = launcher
        self._configuration = configuration
        self._security = security
        self._address = address
        self._entry = entry
        self.server: uvicorn.Server | None = None

    @contextmanager
    def alone(self) -> Iterator[ASGIApp]:
        """Serve the home's jobs, without high availability."""
        dispatcher = self._dispatcher()
        dispatcher.recover()
        dispatcher.expire_periodically()
        try:
            yield self._app(dispatcher)
        finally:
            dispatcher.close()

    @contextmanager
    def with_stand_ins(self, storage: HighAvailabilityStorage) -> Iterator[ASGIApp]:
        """Serve the jobs in a shared storage, while this job manager leads."""
        gate = LeaderGate(storage.lease.leader, self._address, self._entry["instance"], self._security)
        manager = StandbyJobManager(
            storage,
            LeaseTerms.of(self._configuration),
            {
                **self._entry,
                "address": _advertised(self._address),
                "home": str(self._home.root),
                "machine": this_machine(),
            },
            gate,
            lambda term: self._dispatcher(folders=storage.folders(self._home, term.token), leadership=term),
            self._app,
        )
        manager.start()
        try:
            yield gate
        finally:
            manager.close()

    def _dispatcher(self, leadership: Leadership | None = None, **changes: Any) -> Dispatcher:
        options = JobManagerOptions
        size = self._configuration.get(options.SPARE_DRIVERS)
        min_free = self._configuration.get(options.SPARE_DRIVERS_MIN_FREE_MEMORY)
        token = None if leadership is None else leadership.token
        return Dispatcher(
            self._home,
            self._launcher,
            store=JobStoreTerms.of(self._configuration),
            trainer=ClassDataTrainer(self._home.root) if self._configuration.get(options.CLASS_DATA_ARCHIVE) else None,
            spares=SpareDrivers(self._home, size, min_free, token) if size or self._launcher.starts_drivers else None,
            leadership=leadership,
            heartbeat=HeartbeatTerms.of(self._configuration),
            **changes,
        )

    def _app(self, dispatcher: Dispatcher) -> ASGIApp:
        return create_app(
            dispatcher,
            address=self._address,
            security=self._security,
            instance=self._entry["instance"],
            configuration=self._configuration.to_dict(),
            shut_down=self._shut_down,
        )

    def _shut_down(self) -> None:
        if self.server is not None:
            self.server.should_exit = True


@contextmanager
def bind(address: str, port: int) -> Iterator[socket.socket]:
    """Yield a listening socket on the port or the next free one; it is bound here, so nobody else can take it.

    Raises:
        PystateError: The address isn't local, or all tried ports are in use.
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
    """Hold the home's lock. A holder without an address is starting or ending, and is waited for briefly."""
    descriptor = _opened_lock(home)
    try:
        deadline = time.monotonic() + _LOCK_WAIT_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                other = _other(home)
                if other is not None or time.monotonic() > deadline:
                    named = "" if other is None else f" (process {other})"
                    message = f"Another job manager{named} serves this home."
                    raise AlreadyRunningError(message, where=str(home.root)) from error
                time.sleep(0.1)
        _forget_address(home)  # a killed one leaves its address
        yield
    finally:
        os.close(descriptor)


def _opened_lock(home: PystateHome) -> int:
    path = str(home.jobmanager_lock)
    try:
        return open_to_write(path, os.O_RDWR)
    except (NotRegularError, IsADirectoryError) as error:
        message = f"The home can't be locked: {error.strerror}."
        raise PystateError(message, where=path, hint=f"mv {path} {path}.damaged; then the same command again") from error


def _other(home: PystateHome) -> int | None:
    """Return the process that published its address; None if there is none, or it can't be read."""
    try:
        return (read_job_manager(home) or {}).get("pid")
    except DamagedAddressError:
        return None


@contextmanager
def _known(home: PystateHome, entry: dict[str, Any]) -> Iterator[None]:
    """Publish the address in the home, and rewrite it if it is damaged."""
    write_json(home.jobmanager, entry, mode=0o600)
    ended = threading.Event()

    def keep() -> None:
        while not ended.wait(REWRITE_SECONDS):
            with suppress(OSError):  # a full disk, a home that can't be written at the moment: retried later
                if is_damaged(home):
                    _put_folder_aside(home.jobmanager)
                    write_json(home.jobmanager, entry, mode=0o600)
                    logger.warning("%s was damaged and is written again", home.jobmanager)

    keeper = threading.Thread(target=keep, name="address", daemon=True)
    keeper.start()
    try:
        yield
    finally:
        ended.set()
        keeper.join()
        _forget_address(home)
        logger.info("job manager ends")


def _forget_address(home: PystateHome) -> None:
    _put_folder_aside(home.jobmanager)
    with suppress(FileNotFoundError):
        home.jobmanager.unlink()


def _put_folder_aside(path: Path) -> None:
    """Move a folder away that is in the place of a file; it may contain anything."""
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(path.lstat().st_mode):
            aside = path.with_name(f"{path.name}.damaged-{secrets.token_hex(4)}")
            path.rename(aside)
            logger.warning("%s was a folder; it is %s now", path, aside.name)


def _advertised(address: str) -> str:
    """Return an address for clients on other machines, if this listens on more than the loopback."""
    return socket.getfqdn() if address in ("0.0.0.0", "::", "") else address  # noqa: S104 - not bound here


def _reachable(address: str) -> str:
    """Return an address that a client on this machine can connect to."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(address, address)  # noqa: S104 - not bound here
