"""Selects the local directory that keeps the copies of a subtask's state."""

from __future__ import annotations

import hashlib
import os

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.checkpointing_options import CheckpointingOptions
from pystate.core.snapshot.storage.local_copies import LocalCopies, local_copies_folder
from pystate.runtime.plan.task import JobEnvironment


def local_roots(configuration: Configuration) -> list[str]:
    """Return the directories given by `execution.checkpointing.local-backup.dirs`; empty for the temporary directory."""
    text = configuration.get(CheckpointingOptions.LOCAL_RECOVERY_DIRS) or ""
    return [os.path.expanduser(root) for root in map(str.strip, text.split(",")) if root]


def local_copies(environment: JobEnvironment, uid: str, subtask: int) -> LocalCopies | None:
    """Return the local copies of a subtask; None if the job keeps none.

    Args:
        environment: The job's environment.
        uid: The task's uid.
        subtask: The index of the subtask.
    """
    configuration = Configuration(environment.configuration)
    if not configuration.get(CheckpointingOptions.LOCAL_RECOVERY):
        return None
    roots = local_roots(configuration)
    root = roots[subtask % len(roots)] if roots else None
    task = hashlib.md5(uid.encode(), usedforsecurity=False).hexdigest()[:12]
    return LocalCopies(os.path.join(local_copies_folder(root, environment.job_id), f"{task}-{subtask}"))
