"""Finds the jobs of an installation that still need a snapshot, from the home's files, without a job manager."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from pystate.common.configuration.groups.checkpointing_options import StateRecoveryOptions
from pystate.common.errors import PystateError, UsageError
from pystate.common.files.home import JobDirectory, PystateHome
from pystate.core.snapshot.metadata import CheckpointType
from pystate.core.snapshot.storage.ownership import claimant
from pystate.core.snapshot.storage.snapshot_location import MEMORY_SCHEME, METADATA_FILE, SnapshotLocation, parse_location
from pystate.ops.catalog.garbage import named_files
from pystate.ops.catalog.snapshot_summary import read_snapshot
from pystate.runtime.checkpoint.stats.checkpoint_stats import CompletedCheckpointStats
from pystate.runtime.checkpoint.stats.file import read_statistics
from pystate.runtime.job_folder.job_liveness import has_ended, job_runs
from pystate.runtime.job_folder.submission import SubmissionFile


class SnapshotInUseError(PystateError):
    """A job that has not ended still needs a snapshot."""


@dataclass(frozen=True)
class _Checkpoints:
    """The latest checkpoint and the restored one in a job's statistics; None for none."""

    latest: str | None
    restored: str | None


def check_unused(home: PystateHome, location: SnapshotLocation) -> None:
    """Check that no unfinished job of the home needs a snapshot.

    A job needs the snapshot it was started from until it has its own checkpoint, its own checkpoints, and claimed ones.

    Raises:
        SnapshotInUseError: A job does.
        SnapshotError: The directory can't be read, or the owner of the snapshot can't be determined.
    """
    place = _place(location.uri)
    try:
        metadata = read_snapshot(location)
        own = metadata.job_id if metadata.checkpoint_type is CheckpointType.CHECKPOINT else None
    except PystateError:  # a damaged one may always be deleted
        own = None
    owner = claimant(location)
    if owner is not None and job_runs(home, owner) is not False:
        message = f"Job {owner} has claimed it, and deletes it when it has newer checkpoints."
        hint = f"if that job is gone for good, delete the file claim-{owner}-* in the directory first"
        raise SnapshotInUseError(message, where=location.uri, hint=hint)
    for job_id, directory in _running(home):
        if job_id == own:
            message = f"It is a checkpoint of job {job_id}, which has not ended; the job deletes it when it has newer ones."
            raise SnapshotInUseError(message, where=location.uri, hint=f"pystate checkpoints {job_id}")
        checkpoints = _checkpoints(directory)
        if _names_files_in(checkpoints.latest, place):
            message = f"The latest checkpoint of job {job_id}, which has not ended, refers to files in it."
            raise SnapshotInUseError(message, where=location.uri, hint="wait for a checkpoint that doesn't")
        started_from = [*_starting_paths(directory), checkpoints.restored]
        if checkpoints.latest is None and any(path is not None and _place(path) == place for path in started_from):
            message = f"Job {job_id} was started from it, has not ended, and has no checkpoint of its own yet."
            raise SnapshotInUseError(message, where=location.uri, hint=f"wait for one: pystate checkpoints --watch {job_id}")


def _running(home: PystateHome) -> Iterator[tuple[str, JobDirectory]]:
    try:
        entries = sorted(os.listdir(home.jobs))
    except FileNotFoundError:
        return
    for entry in entries:
        try:
            directory = home.job(entry)
        except UsageError:
            continue
        if not has_ended(directory):
            yield entry, directory


def _starting_paths(directory: JobDirectory) -> Iterator[str]:
    try:
        submission = SubmissionFile.read(directory)
    except PystateError:  # a plain `python job.py` has none, and with a damaged one no driver is started any more
        return
    option = StateRecoveryOptions.SAVEPOINT_PATH
    keys = (option.key, *option.fallback_keys)
    for path in (submission.savepoint_path, *map(submission.configuration.get, keys)):
        if path:
            yield path if ":" in path else os.path.join(submission.working_directory, os.path.expanduser(path))


def _checkpoints(directory: JobDirectory) -> _Checkpoints:
    try:
        tracker = read_statistics(directory.checkpoints, sys.maxsize, lambda: 0)
    except PystateError:
        tracker = None
    if tracker is None:
        return _Checkpoints(None, None)
    snapshot = tracker.snapshot()
    last, restored = snapshot.latest["completed"], snapshot.restored
    latest = last.path if isinstance(last, CompletedCheckpointStats) and not last.discarded else None
    if latest is not None and latest.startswith(MEMORY_SCHEME):
        latest = None  # those in the memory of a driver die with it
    return _Checkpoints(latest, None if restored is None else restored.path)


def _names_files_in(checkpoint: str | None, place: str) -> bool:
    if checkpoint is None:
        return False
    try:
        location = SnapshotLocation(checkpoint)
        named = named_files(read_snapshot(location), location.uri)
    except PystateError:
        return False
    return any(_place(uri).startswith(f"{place}/") for uri in named)


def _place(text: str) -> str:
    """Return the canonical form of a snapshot's directory."""
    try:
        uri = parse_location(text)[2]
    except PystateError:
        return text
    uri = uri.removesuffix(f"/{METADATA_FILE}").rstrip("/")
    return f"file:{os.path.realpath(uri[len('file:') :])}" if uri.startswith("file:") else uri
