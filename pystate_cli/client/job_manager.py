"""Finds the job manager of a home, and starts one if there is none."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import pystate
from pystate.common.errors import ControlError, PystateError
from pystate.common.files.home import PystateHome
from pystate.common.files.job_manager_entry import is_served, read_job_manager
from pystate.common.files.regular_files import NotRegularError, open_to_write
from pystate.common.files.tokens import read_home_token
from pystate.common.processes.job_manager_address import parse_address
from pystate.common.processes.machine_load import PatientDeadline, busy_sentence
from pystate.common.processes.processes import is_alive, signal_process, started_at
from pystate.runtime.logs.log_reader import log_extent, read_log
from pystate.runtime.rest.cluster_messages import ITSELF, ClusterConfigurationInfoEntry, StandbyConfiguration
from pystate_cli.client.rest_client import NoJobManagerError, RestClient

if TYPE_CHECKING:
    from pystate.common.configuration.config_option import ConfigOption
    from pystate.common.configuration.configuration import Configuration
    from pystate.ops.jobmanager.high_availability.shared_storage import HighAvailabilityStorage

logger = logging.getLogger(__name__)

JOB_MANAGER_COMMAND = (sys.executable, "-m", "pystate.ops.jobmanager")
VERSION = pystate.__version__
_ALREADY_RUNNING_EXIT_CODE = 3
_START_SECONDS = 60.0
_POLL_SECONDS = 0.05
_LOG_LINES = 10
_LOG_BYTES = 64 << 10


class VersionMismatchError(ControlError):
    """The job manager has another version than this command."""


class NoLeaderError(NoJobManagerError):
    """There are job managers, and none of them leads."""


def find_job_manager(
    home: PystateHome, address: str | None, timeout: float, configuration: Configuration | None = None
) -> RestClient:
    """Return a client of the running job manager, or of the leader if there are several.

    Args:
        home: The folder of this installation.
        address: The value of `-m`; None searches the home, and the storage for high availability.
        timeout: Seconds an answer may take.
        configuration: Has the place of that storage.

    Raises:
        NoJobManagerError: There is no job manager.
        VersionMismatchError: It is of another version.
    """
    if address is not None:
        host, port, path = parse_address(address)
        prefix = path or _url_prefix(configuration)
        client = _remote_client(host, port, timeout, configuration, token=_token(home, configuration), prefix=prefix)
        hint = "call the pystate that it came with, or another one with -m"
        found = client.get("/config", StandbyConfiguration)
        _check_version(found, f"job manager at {client.address}", hint)
        return _leading(client, found, home, configuration, timeout)
    running = _healthy(home, timeout)
    if running is not None:
        client, found = running
        return _leading(client, found, home, configuration, timeout)
    storage = _shared_storage(configuration)
    leader = None if storage is None else storage.lease.leader()
    if storage is not None and leader is not None:
        host, port, instance = str(leader["address"]), int(leader["port"]), str(leader["instance"])
        return _remote_client(host, port, timeout, configuration, token=storage.token(), instance=instance)
    from pystate_cli.client.absent_job_manager import absent_job_manager

    raise absent_job_manager(home)


def ensure_job_manager(
    home: PystateHome,
    rest_address: str,
    rest_port: int,
    timeout: float,
    command: Sequence[str] = JOB_MANAGER_COMMAND,
    configuration: Configuration | None = None,
    warn: Callable[[str], object] = logger.warning,
) -> RestClient:
    """Return a client of the home's job manager, or of the leader; start one if the home has none.

    Raises:
        PystateError: It couldn't be started, or none becomes leader.
        VersionMismatchError: The one that runs is of another version.
    """
    client, _ = start_job_manager(home, rest_address, rest_port, timeout, command, configuration, warn)
    deadline = PatientDeadline(_START_SECONDS)
    while True:
        try:
            leading = _leading(client, client.get("/config", StandbyConfiguration), home, configuration, timeout)
            if leading is not client:
                leading.get("/config", StandbyConfiguration)  # it may have died, and no other has taken over yet
            return leading
        except NoJobManagerError:
            if deadline.has_passed():
                raise
        time.sleep(_POLL_SECONDS)


def start_job_manager(
    home: PystateHome,
    rest_address: str,
    rest_port: int,
    timeout: float,
    command: Sequence[str] = JOB_MANAGER_COMMAND,
    configuration: Configuration | None = None,
    warn: Callable[[str], object] = logger.warning,
) -> tuple[RestClient, bool]:
    """Return a client of the home's own job manager, and whether this call started it.

    Args:
        home: The folder of this installation.
        rest_address: The address to listen on.
        rest_port: The port.
        timeout: Seconds an answer may take.
        command: The command that starts it.
        configuration: Its options.
        warn: Called with changes that made the home private to its owner.

    Raises:
        PystateError: It could not be started, or the home is another user's.
        VersionMismatchError: The one that runs is of another version.
    """
    running = _healthy(home, timeout)
    if running is not None:
        return running[0], False
    from pystate.common.files.folders import make_private_folder
    from pystate.common.files.private_home import close_to_others
    from pystate.common.files.refused_files import refused

    make_private_folder(home.root)
    try:
        changed = close_to_others(home)
    except OSError as error:
        raise refused(error, "The home can't be closed to others") from error
    for sentence in changed:
        warn(sentence)
    _, log_start = log_extent(home.jobmanager_log)
    command = [*command, "--home", str(home.root), "--address", rest_address, "--port", str(rest_port), "--log"]
    command += _properties(configuration)
    process = _start(command, home)
    deadline = PatientDeadline(_START_SECONDS)
    while True:
        ended = process.poll()
        running = _healthy(home, timeout)  # checked after poll(): another command's job manager may have been faster
        if running is not None:
            ours = (read_job_manager(home) or {}).get("pid") == process.pid
            if ended is None and not ours:
                process.terminate()  # it waits for a lock that the faster one holds
            return running[0], ours
        if ended == _ALREADY_RUNNING_EXIT_CODE:
            process = _start(command, home)  # the other one may not come up
        elif ended is not None or deadline.has_passed():
            what = "did not come up in time" if ended is None else f"ended at once with exit code {ended}"
            message = f"The job manager {what}."
            lines = _last_lines(home, log_start)
            if not lines:
                _check_room(home)
            busy = None if ended is not None else busy_sentence()
            raise PystateError(f"{message}\n{lines}" if lines else message, hint=busy or f"see {home.jobmanager_log}")
        time.sleep(_POLL_SECONDS)


def become_job_manager(home: PystateHome, rest_address: str, rest_port: int, configuration: Configuration) -> NoReturn:
    """Replace this process by the home's job manager, which writes its log to stderr and gets this process's signals.

    Args:
        home: The folder of this installation.
        rest_address: The address to listen on.
        rest_port: The port.
        configuration: Its options.
    """
    command = [*JOB_MANAGER_COMMAND, "--home", str(home.root), "--address", rest_address, "--port", str(rest_port)]
    os.execv(command[0], [*command, *_properties(configuration)])  # noqa: S606 - ourselves


def _check_room(home: PystateHome) -> None:
    """Check that a job manager without output could have written some.

    Raises:
        FileRefusedError: No files can be written to its home.
    """
    from pystate.common.files.job_files import check_room
    from pystate.common.files.refused_files import refused

    try:
        check_room(home.root)
    except OSError as error:
        raise refused(error, "The job manager can't write to its home") from error


def own_job_manager(home: PystateHome, timeout: float) -> tuple[dict[str, Any], RestClient | None] | None:
    """Return the entry of the home's own job manager and, if it answers, a client of it; None without one.

    Raises:
        VersionMismatchError: It is of another version.
    """
    entry = read_job_manager(home)
    if entry is None:
        return None
    try:
        running = _healthy(home, timeout)
    except VersionMismatchError:
        raise
    except ControlError:  # it has accepted the connection and doesn't answer
        running = None
    if running is not None:
        return read_job_manager(home) or entry, running[0]
    # the lock proves that a job manager lives; the start time, that its process id wasn't reused
    if not is_served(home) or started_at(entry["pid"]) != entry.get("started"):
        return None
    return entry, None


def stop_job_manager(entry: dict[str, Any], seconds: float) -> bool:
    """Ask a job manager to end, and wait for it; return whether it did.

    Args:
        entry: Its entry in the home.
        seconds: The timeout.
    """
    pid, started = int(entry["pid"]), entry.get("started")
    signal_process(pid, started, signal.SIGTERM)
    deadline = time.monotonic() + seconds
    while started_at(pid) == started:
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _properties(configuration: Configuration | None) -> list[str]:
    """Return the job manager's own options as its arguments; no others, since arguments are visible to all users."""
    if configuration is None:
        return []
    values = configuration.to_dict()
    keys = [option.key for option in _own_options()]
    return [word for key in keys if key in values for word in ("-D", f"{key}={values[key]}")]


def _own_options() -> Iterator[ConfigOption[Any]]:
    from pystate.common.configuration.config_option import options_of
    from pystate.common.configuration.groups.job_manager_options import (
        HeartbeatManagerOptions,
        HighAvailabilityOptions,
        JobManagerOptions,
    )
    from pystate.common.configuration.groups.security_options import SecurityOptions

    for group in (JobManagerOptions, HeartbeatManagerOptions, HighAvailabilityOptions, SecurityOptions):
        yield from options_of(group)


def options_not_in_force(client: RestClient, asked: Mapping[str, str]) -> list[str]:
    """Return the requested options, with their values, that a running job manager doesn't have.

    Args:
        client: A client of the job manager.
        asked: The requested options and their values; those of jobs are ignored.
    """
    from pystate.common.configuration.configuration import Configuration
    from pystate.common.configuration.groups.service_options import RestOptions
    from pystate.common.configuration.sensitive_keys import is_sensitive

    own: list[ConfigOption[Any]] = [RestOptions.ADDRESS, RestOptions.PORT, *_own_options()]
    options = [option for option in own if option.key in asked and not is_sensitive(option.key)]
    if not options:
        return []
    entries = client.get_list("/jobmanager/config", ClusterConfigurationInfoEntry)
    host, port, _ = parse_address(client.address)
    found = {entry.key: entry.value for entry in entries}
    found |= {RestOptions.PORT.key: str(port), RestOptions.ADDRESS.key: host}
    running, wanted = Configuration(found), Configuration(dict(asked))
    return [
        f"{option.key} = {asked[option.key]}"
        for option in options
        if running.get(option) != wanted.get(option) and (option is not RestOptions.PORT or wanted.get(option))
    ]


def _shared_storage(configuration: Configuration | None) -> HighAvailabilityStorage | None:
    """Return the storage for high availability; None without one, or before a job manager was started with it."""
    if configuration is None:
        return None
    from pystate.common.configuration.groups.job_manager_options import HighAvailabilityMode, HighAvailabilityOptions

    if configuration.get(HighAvailabilityOptions.HA_MODE) is HighAvailabilityMode.NONE:
        return None
    from pystate.ops.jobmanager.high_availability.shared_storage import shared_storage

    storage = shared_storage(configuration)
    return storage if storage is not None and storage.is_there else None


def _leading(
    client: RestClient,
    found: StandbyConfiguration,
    home: PystateHome,
    configuration: Configuration | None,
    timeout: float,
) -> RestClient:
    """Return a client of the leader.

    Args:
        client: A client of any job manager.
        found: Its answer to GET /config.
        home: The folder of this installation.
        configuration: Has the place of the storage for high availability.
        timeout: Seconds an answer may take.
    """
    leader = found.pystate_leader
    if leader == ITSELF:
        return client
    if leader is None:
        message = f"The job manager at {client.address} does not lead, and nor does another one at the moment."
        raise NoLeaderError(message, hint="try again in a moment; pystate cluster status")
    host, port, _ = parse_address(leader.address)
    return _remote_client(host, port, timeout, configuration, token=_token(home, configuration), instance=leader.instance)


def _healthy(home: PystateHome, timeout: float) -> tuple[RestClient, StandbyConfiguration] | None:
    """Return a client if the home's job manager answers, and its answer to GET /config.

    A stale file, or a foreign program on its port, doesn't count.
    """
    entry = read_job_manager(home)
    if entry is None or not is_alive(entry["pid"]):
        return None
    # the peer must show the instance's mark before it gets the token
    probe = _client(entry, timeout, None)
    client = _client(entry, timeout, _token(home))
    try:
        if not probe.is_there():
            return None
        config = client.get("/config", StandbyConfiguration)
    except NoJobManagerError:
        return None
    hint = f"kill {entry['pid']} ends it, its jobs go on; the next pystate run starts one of version {VERSION}"
    _check_version(config, f"process {entry['pid']} at {probe.address}", hint)
    return client, config


def _check_version(config: StandbyConfiguration, where: str, hint: str) -> None:
    version = config.pystate_version
    if version != VERSION:
        named = f"has version {version}" if version else "is not one of pystate"
        message = f"The job manager {named}; this command has version {VERSION}."
        raise VersionMismatchError(message, where=where, hint=hint)


def _client(entry: dict[str, Any], timeout: float, token: str | None) -> RestClient:
    """Return a client of a home's own job manager, by its entry in the home."""
    tls = None
    if entry.get("scheme") == "https":
        from pystate.common.processes.rest_client_security import tls_with

        tls = tls_with(entry["ca"])
    return RestClient(
        entry["address"],
        entry["port"],
        timeout=timeout,
        token=token,
        instance=entry["instance"],
        tls=tls,
        pid=entry["pid"],
    )


def _remote_client(
    host: str,
    port: int,
    timeout: float,
    configuration: Configuration | None,
    *,
    token: str | None,
    instance: str | None = None,
    prefix: str = "",
) -> RestClient:
    """Return a client of a job manager that isn't found by the home."""
    if configuration is None:
        return RestClient(host, port, timeout=timeout, token=token, instance=instance)
    from pystate.common.processes.rest_client_security import configured_tls, configured_token

    tls, rest_token = configured_tls(configuration), configured_token(configuration)
    shown: dict[str, Any] = {"token": token, "instance": instance, "rest_token": rest_token}
    return RestClient(host, port, timeout=timeout, tls=tls, prefix=prefix, **shown)


def _url_prefix(configuration: Configuration | None) -> str:
    """Return the path below which a proxy serves the job manager; empty for none."""
    if configuration is None:
        return ""
    from pystate.common.configuration.groups.security_options import SecurityOptions

    return configuration.get(SecurityOptions.REST_URL_PREFIX)


def _token(home: PystateHome, configuration: Configuration | None = None) -> str | None:
    storage = _shared_storage(configuration)
    if storage is not None and storage.lease.leader() is not None:
        return storage.token()
    return read_home_token(home.token)


def _start(command: list[str], home: PystateHome) -> subprocess.Popen[bytes]:
    from pystate.common.configuration.file_system_settings import settings_environment

    environment = {**os.environ, **settings_environment()}
    if environment.get("PYTHONPATH"):
        # it starts in another folder, where relative entries would be wrong
        entries = environment["PYTHONPATH"].split(os.pathsep)
        environment["PYTHONPATH"] = os.pathsep.join(os.path.abspath(entry) for entry in entries)
    try:
        descriptor = open_to_write(home.jobmanager_log, os.O_WRONLY | os.O_APPEND)
    except (NotRegularError, IsADirectoryError) as error:
        from pystate.common.files.refused_files import refused

        raise refused(error, "The job manager's log can't be written") from error
    os.set_blocking(descriptor, True)  # expected by the process that inherits it
    with os.fdopen(descriptor, "ab") as log:
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
    begin, end = log_extent(home.jobmanager_log)
    start = max(begin, start, end - _LOG_BYTES)
    data, _ = read_log(home.jobmanager_log, start, _LOG_BYTES, ended=True)
    lines = data.decode(errors="replace").splitlines()
    return "\n".join(f"  | {line}" for line in lines[-_LOG_LINES:])
