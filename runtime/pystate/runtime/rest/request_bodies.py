"""What requests send in their bodies."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from pystate.common.text.plain_data import entry
from pystate.runtime.rest.message import RestMessage


class CheckpointTriggerRequestBody(RestMessage):
    """Trigger a checkpoint."""

    checkpoint_type: Literal["CONFIGURED", "FULL", "INCREMENTAL"] = entry("checkpointType", default="CONFIGURED")
    trigger_id: str | None = entry("triggerId", default=None)


class SavepointTriggerRequestBody(RestMessage):
    """Trigger a savepoint."""

    target_directory: str | None = entry("target-directory", default=None)
    cancel_job: bool = entry("cancel-job", default=False)
    format_type: str = entry("formatType", default="CANONICAL")
    trigger_id: str | None = entry("triggerId", default=None)
    message: str | None = None


class StopWithSavepointRequestBody(RestMessage):
    """Stop a job with a savepoint."""

    target_directory: str | None = entry("targetDirectory", default=None)
    drain: bool = False
    format_type: str = entry("formatType", default="CANONICAL")
    trigger_id: str | None = entry("triggerId", default=None)
    message: str | None = None


class SavepointDisposalRequest(RestMessage):
    """Delete a savepoint."""

    savepoint_path: str = entry("savepoint-path")


class JobSubmitRequestBody(RestMessage):
    """Submit a job."""

    job_file: str
    arguments: list[str] = field(default_factory=list)
    working_directory: str
    python: str
    parallelism: int | None = None
    savepoint_path: str | None = None
    allow_non_restored_state: bool = False
    configuration: dict[str, str] = field(default_factory=dict)
    job_name: str | None = None
    attached: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    job_id: str | None = None


class ResubmissionRequestBody(RestMessage):
    """Keep what a job can be started with again."""

    parallelism: int
    warm: bool = False
    ready: bool = False
    keeper: str | None = None


class ResubmitRequestBody(RestMessage):
    """Start a job once more."""

    savepoint_path: str | None = None
    parallelism: int | None = None
    allow_non_restored_state: bool = False
    job_id: str | None = None


class ForkRequestBody(RestMessage):
    """Start another job of a job's program."""

    savepoint_path: str
    parallelism: int | None = None
    job_name: str | None = None
    allow_non_restored_state: bool = False
