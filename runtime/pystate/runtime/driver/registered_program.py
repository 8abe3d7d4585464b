"""Keeps a job of this program registered with a job manager of another home, which shows it and passes commands on.

The job manager never starts the program again. It has the job's files as this process sends them: the whole of them to a job
manager that knows nothing of the job, after that what has changed. Sent again and again, they are also the sign of life.
"""

from __future__ import annotations

import atexit
import logging
import os
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pystate
from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.job_manager_options import HeartbeatManagerOptions
from pystate.common.configuration.groups.pystate_options import PystateOptions
from pystate.common.configuration.groups.security_options import SecurityOptions
from pystate.common.errors import ConfigurationError, PystateError, UsageError
from pystate.common.files.home import JobDirectory, PystateHome
from pystate.common.files.job_files import JobFile, read_job_file
from pystate.common.files.tokens import read_home_token
from pystate.common.processes.job_manager_address import parse_address
from pystate.common.processes.job_manager_proofs import REGISTRATION_PROTOCOL, control_secret, new_nonce
from pystate.common.processes.rest_client_security import configured_tls, configured_token
from pystate.runtime.driver.job_manager_client import JobManagerClient, JobManagerUnreachableError, unknown_host
from pystate.runtime.job_folder.registration import MOST_INTERVAL_MS, Registration, RegistrationAnswer, file_to_text
from pystate.runtime.job_folder.small_files import DriverAddressFile, EmbeddedProgramFile

logger = logging.getLogger(__name__)

JOB_MANAGER = "PYSTATE_JOBMANAGER"
"""The environment variable with the job manager's address."""
_LOOK_SECONDS = 0.3
_TRY_AGAIN_SECONDS = 1.0
_START_SECONDS = 10.0
"""How long a start waits for a job manager that is starting, or is about to be replaced."""
_LAST_WORD_SECONDS = 10.0
"""How long a program waits for the job manager to know of its job's end; in one that lives on, that is tried further."""
_MOST_SENT_BYTES = 3 << 20
"""The most bytes of files in one message, compressed; a request may have 4 MiB."""


@dataclass(frozen=True)
class JobManagerTerms:
    """Which job manager a program registers with, and what it proves to it.

    Attributes:
        addresses: Where it may be, or those that stand in for each other.
        token: What both sides prove.
        required: Whether the job doesn't start without it.
        encrypted: Whether connections to this process are encrypted.
        interval_ms: How often this process shows that it lives.
        host: By which address the job manager finds this machine.
        bind: What to listen on.
        ports: On which ports; the first free one is taken.
    """

    addresses: list[str]
    token: str
    required: bool
    encrypted: bool
    interval_ms: int
    host: str
    bind: str
    ports: range

    @staticmethod
    def of(configuration: Configuration, home: PystateHome) -> JobManagerTerms | None:
        """Return what the options say; None where no job manager is named.

        Raises:
            PystateError: The address, the host's name or the secret is not what it should be.
        """
        get = configuration.get
        configured = get(PystateOptions.JOBMANAGER_ADDRESS)
        named = configured or os.environ.get(JOB_MANAGER) or ""
        addresses = [word.strip() for word in named.split(",") if word.strip()]
        if not addresses:
            return None
        for address in addresses:
            try:
                parse_address(address)
            except UsageError as error:
                error.where = PystateOptions.JOBMANAGER_ADDRESS.key if configured else JOB_MANAGER
                raise
        token = configured_token(configuration) or read_home_token(home.token)
        if token is None:
            message = f"There is no secret to prove to the job manager at {addresses[0]}."
            key = SecurityOptions.REST_TOKEN_FILE.key
            hint = f"set {key} to the file that the job manager has there, or copy its home's file token to {home.token}"
            raise ConfigurationError(message, where=key, hint=hint)
        users = configuration.to_dict()
        host = users.get("spark.driver.host") or _own_address(addresses)
        return JobManagerTerms(
            addresses,
            token,
            get(PystateOptions.JOBMANAGER_REQUIRED),
            get(SecurityOptions.SSL_INTERNAL_ENABLED),
            min(get(HeartbeatManagerOptions.HEARTBEAT_INTERVAL), MOST_INTERVAL_MS),
            host,
            users.get("spark.driver.bindAddress") or host,
            get(PystateOptions.SLOT_PORTS),
        )

    def client(self, configuration: Configuration) -> JobManagerClient:
        """Return a client of the job manager."""
        return JobManagerClient(self.addresses, self.token, configured_tls(configuration))


def _own_address(addresses: list[str]) -> str:
    """Return the address of this machine on the way to one of the job managers."""
    for number, address in enumerate(addresses, start=1):
        host, port, _ = parse_address(address)
        try:
            family, kind, _, _, peer = socket.getaddrinfo(host, port, socket.AF_INET, socket.SOCK_DGRAM)[0]
            with socket.socket(family, kind) as probe:
                probe.connect(peer)  # sends nothing: a datagram socket only looks up the route
                return str(probe.getsockname()[0])
        except OSError as error:
            if number == len(addresses):
                raise unknown_host(host, error) from error
    raise AssertionError


def _tell(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")


class RegisteredProgram:
    """One job of this program, and its registration.

    Args:
        terms: Which job manager.
        client: A client of it.
        job_id: The job.
        home: The program's home.
        directory: The job's folder in it.
        log_job: The job in whose folder the log of its Spark session is.
        tell: Tells people a sentence.

    Attributes:
        give_way: Ends the job, as another start of its program has it.
    """

    give_way: Callable[[], object] | None = None

    def __init__(
        self,
        terms: JobManagerTerms,
        client: JobManagerClient,
        job_id: str,
        home: PystateHome,
        directory: JobDirectory,
        log_job: str,
        tell: Callable[[str], object] = _tell,
    ) -> None:
        self.terms = terms
        self._client = client
        self._job_id = job_id
        self._home = home
        self._directory = directory
        self._log_job = log_job
        self._tell = tell
        self._incarnation = secrets.token_hex(16)
        self._control_nonce = new_nonce()
        self._driver: DriverAddressFile | None = None  # as it was before the endpoint closed
        self._lock = threading.Lock()
        self._ending = threading.Lock()
        self._ended = threading.Event()
        self._end_is_settled = threading.Event()
        self._thread = threading.Thread(target=self._run, name="registration", daemon=True)
        self._instance: str | None = None  # the job manager that has all files
        self._sent: dict[str, bytes] = {}
        self._next_sign = 0.0
        self._told: str | None = None

    @property
    def secret(self) -> bytes:
        """The secret of the job's control endpoint, which the job manager computes as well."""
        return control_secret(self.terms.token, self._job_id, self._control_nonce, encrypted=self.terms.encrypted)

    def check(self, seconds: float = _START_SECONDS) -> None:
        """Make sure, before anything of the job is written, that the job manager takes it.

        Args:
            seconds: How long a job manager may take to answer at all.

        Raises:
            PystateError: It doesn't take it, or doesn't answer and has to.
        """
        deadline = time.monotonic() + (seconds if self.terms.required else 0)
        while True:
            try:
                self._client.challenge(self._job_id, self._incarnation)
            except JobManagerUnreachableError as error:
                if time.monotonic() < deadline:
                    time.sleep(_LOOK_SECONDS)
                    continue
                if self.terms.required:
                    anyway = f"set {PystateOptions.JOBMANAGER_REQUIRED.key} = false to run the job without it"
                    hint = f"{error.hint or 'start it'}, or {anyway}"
                    raise JobManagerUnreachableError(error.message, where=error.where, hint=hint) from error
            return

    def begin(self) -> None:
        """Register the job, which has its status and its control endpoint, and keep it registered.

        The job manager may have gone since `check`: then it is registered as soon as one answers.

        Raises:
            PystateError: The job manager doesn't take it.
        """
        try:
            answer = self._say(ended=False)
        except JobManagerUnreachableError as error:
            self._tell(f"WARNING: {error.message} The job runs without it, and registers as soon as it answers.")
            self._told = error.message
        else:
            self._tell(f"Job {self._job_id} is registered with the job manager at {self._client.address}.")
            self._tell_of(answer)
        self._thread.start()
        # the program may exit while the thread of its job is about to tell of the end
        atexit.register(self.end)

    def tell_earlier_end(self) -> None:
        """Tell the job manager how an earlier start of the program has ended the job, which it has missed."""
        try:
            self._say(ended=True)
        except PystateError as error:
            logger.info("the job manager doesn't know how the job has ended: %s", error.message)

    def end(self) -> None:
        """Tell the job manager how the job has ended: once, at the latest as the program exits.

        One that doesn't answer in a bounded time is told later, if this process lives on.
        """
        with self._ending:
            if not self._ended.is_set():
                self._ended.set()
                if self._thread.is_alive() and not self._end_is_settled.wait(_LAST_WORD_SECONDS):
                    self._tell(
                        f"WARNING: The job manager at {self._client.address} doesn't know of the end of job {self._job_id}: "
                        f"it hasn't answered for {_LAST_WORD_SECONDS:.0f} s. It is told if it answers while this program "
                        "lives."
                    )
        atexit.unregister(self.end)  # not before: the exit of the program waits here

    def _run(self) -> None:
        try:
            if self._keep_registered():
                self._tell_of_the_end()
        finally:
            self._end_is_settled.set()

    def _keep_registered(self) -> bool:
        """Show that this process lives until the job has ended; return whether it still has the job then."""
        while not self._ended.wait(_LOOK_SECONDS):
            due = time.monotonic() >= self._next_sign
            if not due and (self._told is not None or not self._changed(often=True)):
                continue
            try:
                if self._say(ended=False).replaced and self._gives_way():
                    return False
            except PystateError as error:
                refused = not isinstance(error, JobManagerUnreachableError)
                wait = self.terms.interval_ms / 1000 if refused else _TRY_AGAIN_SECONDS
                self._next_sign = time.monotonic() + wait
                if error.message != self._told:
                    self._told = error.message
                    self._tell(f"WARNING: {error.message} The job goes on without the job manager, and tries again.")
            except Exception:  # the job must not suffer
                logger.exception("the job isn't registered at the moment")
                self._next_sign = time.monotonic() + self.terms.interval_ms / 1000
            else:
                if self._told is not None:
                    self._told = None
                    self._tell(f"Job {self._job_id} is registered again with the job manager at {self._client.address}.")

        return True

    def _gives_way(self) -> bool:
        """End the job, if it has begun; return whether it had."""
        if self.give_way is None:
            return False
        self._tell(
            f"WARNING: The job manager at {self._client.address} had heard nothing of job {self._job_id} for so long that "
            "it has let another start of its program take it. The job is cancelled here."
        )
        self.give_way()
        return True

    def _tell_of_the_end(self) -> None:
        late = time.monotonic() + _LAST_WORD_SECONDS
        while True:
            try:
                self._say(ended=True)
            except JobManagerUnreachableError as error:
                logger.info("the job manager doesn't know yet how the job has ended: %s", error.message)
            except PystateError as error:
                self._tell(f"WARNING: The job manager doesn't know of the job's end: {error.message}")
                return
            except Exception:  # a bug must not keep the program from its exit
                logger.exception("the job manager doesn't know of the job's end")
                return
            else:
                if time.monotonic() > late:
                    self._tell(f"The job manager at {self._client.address} knows of the end of job {self._job_id} now.")
                return
            time.sleep(_LOOK_SECONDS if time.monotonic() < late else self.terms.interval_ms / 1000)

    def _say(self, *, ended: bool) -> RegistrationAnswer:
        """Register, or show that this process lives; send all files to a job manager that has none of them."""
        with self._lock:
            challenge = self._client.challenge(self._job_id, self._incarnation)
            whole = challenge.instance != self._instance
            answer = self._register(challenge.challenge, whole=whole, ended=ended)
            if answer.wanted and not whole:
                challenge = self._client.challenge(self._job_id, self._incarnation)
                answer = self._register(challenge.challenge, whole=True, ended=ended)
            self._instance = challenge.instance
            self._next_sign = time.monotonic() + self.terms.interval_ms / 1000
            return answer

    def _register(self, challenge: str, *, whole: bool, ended: bool) -> RegistrationAnswer:
        if whole:
            self._sent.clear()
        changed = self._changed(often=not (whole or ended or time.monotonic() >= self._next_sign))
        found = self._driver or DriverAddressFile.read_from(self._directory.driver)
        self._driver = driver = found or DriverAddressFile.of_this_process(self.terms.host, 0)  # which has closed before
        program = cast("EmbeddedProgramFile", EmbeddedProgramFile.read_from(self._directory.embedded))
        answer = self._client.register(
            Registration(
                challenge,
                new_nonce(),
                self._job_id,
                self._incarnation,
                REGISTRATION_PROTOCOL,
                pystate.__version__,
                self._control_nonce,
                self.terms.encrypted,
                DriverAddressFile(
                    driver.pid, self.terms.host, driver.port, driver.started, driver.protocol, driver.pystate_version
                ),
                program,
                f"{program.host}:{self._home.root}",
                f"{program.host}:{self._home.job(self._log_job).log}",
                whole,
                ended,
                self.terms.interval_ms,
                self._texts(changed),
            )
        )
        if not answer.wanted:
            self._sent.update(changed)
        return answer

    def _texts(self, files: dict[str, bytes]) -> dict[str, str]:
        texts, size = {}, 0
        for name, data in files.items():
            text = file_to_text(data)
            size += len(text)
            if size > _MOST_SENT_BYTES:
                logger.warning("the job manager isn't sent %s: it is too large", name)
                size -= len(text)
                continue
            texts[name] = text
        return texts

    def _changed(self, *, often: bool) -> dict[str, bytes]:
        """Return the files of the job that the job manager hasn't, or has older.

        Args:
            often: Only those that are small, and wanted at once.
        """
        directory = self._directory
        files: list[JobFile] = [directory.status]
        if directory.operations.is_dir():
            files += [path for path in sorted(directory.operations.iterdir()) if path.suffix == ".json"]
        if not often:
            files += [directory.checkpoints, directory.last_metrics]
        found = {}
        for file in files:
            name = str(Path(str(file)).relative_to(directory.path))
            try:
                data = read_job_file(file)
            except (OSError, PystateError):
                continue
            if self._sent.get(name) != data:
                found[name] = data
        return found

    def _tell_of(self, answer: RegistrationAnswer) -> None:
        if answer.reachable is False:
            self._tell(
                f"WARNING: The job manager can't connect to this program at {self.terms.host}: {answer.reason} It shows the "
                "job, but savepoint, stop and cancel don't get here from there. Set spark.driver.host to an address of this "
                f"machine that it reaches and {PystateOptions.SLOT_PORTS.key} to open ports, or give these commands here, "
                f"with PYSTATE_HOME={self._home.root}."
            )
