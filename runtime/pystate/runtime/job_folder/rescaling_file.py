"""A rescale, or a return to an earlier state, by the job manager: written before each step, so that the next one goes on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from pystate.common.text.plain_data import PlainData
from pystate.runtime.job_folder.content import FileContent
from pystate.runtime.job_folder.failure_history import JobFailure


@dataclass(frozen=True)
class SuccessorStart(PlainData):
    """A job that is started in place of the stopped one.

    Attributes:
        job_id: Its id, which is chosen before it is started.
        goes_back: Whether it is started as the stopped one was, since another start has failed.
        given_up: Why it is ended by the rescale that has started it; None as long as it isn't.
    """

    job_id: str
    goes_back: bool
    given_up: str | None = None


@dataclass(frozen=True)
class RescalingFile(FileContent):
    """`rescaling.json` of the job that is stopped, written by the job manager.

    Attributes:
        rescaling_id: 32 hex digits: the id of the rescale, of its stop, and of its request to keep the job's data.
        parallelism: The new parallelism.
        snapshot: What the job is put back to; None for a rescale.
        without_state: Whether state of the snapshot that no operator takes is left out.
        began_at: When it began, ms since 1970.
        lines: What was told of it.
        starts: The jobs that were started in place of the stopped one, oldest first.
        managers: How many job managers have worked at it.
        ended_at: When it ended, ms since 1970; None before.
        runs: The job that runs then; None before, and where none does.
        failure: Why it failed; None before, and where it did not.
        keeps: Whether the data to start the job with is still needed then.
    """

    title: ClassVar[str] = "The rescale of the job"
    version: ClassVar[int | None] = 1
    has_checksum: ClassVar[bool] = True

    rescaling_id: str
    parallelism: int
    snapshot: str | None
    without_state: bool
    began_at: int
    lines: list[str] = field(default_factory=list)
    starts: list[SuccessorStart] = field(default_factory=list)
    managers: int = 1
    ended_at: int | None = None
    runs: str | None = None
    failure: JobFailure | None = None
    keeps: bool = False
