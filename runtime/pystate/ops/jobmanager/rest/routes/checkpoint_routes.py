"""The routes about a job's checkpoints."""

from __future__ import annotations

from typing import Any

from pystate.ops.jobmanager.rest.parameters import CHECKPOINT_ID, CHOSEN_TRIGGER_ID, VERTEX_ID, one_word, optional_number
from pystate.ops.jobmanager.rest.route import RestRequest, RestRoute
from pystate.ops.jobmanager.rest.routes.operation_routes import operation, triggered
from pystate.ops.jobmanager.rest.status_answers import checkpoint_result
from pystate.ops.jobmanager.supervision.job_checkpoints import CheckpointNotFoundError
from pystate.runtime.rest.checkpoint_messages import (
    CheckpointConfigInfo,
    CheckpointingStatistics,
    CheckpointStatistics,
    TaskCheckpointStatisticsWithSubtaskDetails,
)
from pystate.runtime.rest.operation_messages import CheckpointResult, TriggerResponse

_PATH = "/jobs/{job_id}/checkpoints"
_CHECKPOINT_TYPE = one_word(
    "checkpointType",
    "FULL shares no files with earlier checkpoints.",
    "CONFIGURED",
    ("CONFIGURED", "FULL", "INCREMENTAL"),
    "checkpoint type",
)

_LIMIT = optional_number(
    "limit", "How many checkpoints are listed, the newest first; all of them by default. Not Flink's.", 1
)
_BEFORE = optional_number("before", "Only checkpoints with a lower id are listed. Not Flink's.")


def _checkpoints(request: RestRequest) -> dict[str, Any]:
    return request.job.checkpoints.overview(request[_LIMIT], request[_BEFORE])


def _details(request: RestRequest) -> dict[str, Any]:
    return request.job.checkpoints.details(request[CHECKPOINT_ID])


def _subtasks(request: RestRequest) -> dict[str, Any]:
    return request.job.checkpoints.subtasks(request[CHECKPOINT_ID], request[VERTEX_ID])


def _config(request: RestRequest) -> dict[str, Any]:
    job = request.job
    found: dict[str, Any] | None = job.status().get("checkpoint_config")
    if found is None:
        message = f"Checkpointing is not enabled for this job ({job.job_id})."
        raise CheckpointNotFoundError(message, hint="its configuration is known once it has been planned")
    return found


def _trigger(request: RestRequest) -> TriggerResponse:
    return triggered(request, "trigger_checkpoint", full=request[_CHECKPOINT_TYPE] == "FULL")


def _result(request: RestRequest) -> CheckpointResult:
    return checkpoint_result(operation(request, checkpoint=True))


ROUTES = (
    RestRoute(
        "GET",
        _PATH,
        _checkpoints,
        "A job's checkpoints: counts, sizes, history.",
        CheckpointingStatistics,
        query=(_LIMIT, _BEFORE),
        asks_driver=True,
    ),
    RestRoute(
        "POST",
        _PATH,
        _trigger,
        "Trigger a checkpoint.",
        TriggerResponse,
        status=202,
        body=(_CHECKPOINT_TYPE, CHOSEN_TRIGGER_ID),
        asks_driver=True,
        refusals=(409,),
    ),
    RestRoute("GET", f"{_PATH}/{{trigger_id}}", _result, "What became of a trigger.", CheckpointResult, asks_driver=True),
    RestRoute("GET", f"{_PATH}/config", _config, "How a job's checkpoints are configured.", CheckpointConfigInfo),
    RestRoute(
        "GET", f"{_PATH}/details/{{checkpoint_id}}", _details, "A checkpoint.", CheckpointStatistics, asks_driver=True
    ),
    RestRoute(
        "GET",
        f"{_PATH}/details/{{checkpoint_id}}/subtasks/{{vertex_id}}",
        _subtasks,
        "An operator's part of a checkpoint, subtask by subtask.",
        TaskCheckpointStatisticsWithSubtaskDetails,
        asks_driver=True,
    ),
)
