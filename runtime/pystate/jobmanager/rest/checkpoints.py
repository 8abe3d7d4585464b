"""The routes about a job's checkpoints."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from pystate.checkpoint.stats.checkpoint_stats import CheckpointStatsCounts, CheckpointStatsStatus
from pystate.checkpoint.stats.figures import SUMMARIZED, Slowest, Totals
from pystate.checkpoint.stats.summary import PERCENTILES
from pystate.jobmanager.job_checkpoints import CheckpointNotFoundError
from pystate.jobmanager.rest.operations import operation_result, triggered
from pystate.jobmanager.rest.parameters import CHECKPOINT_ID, CHOSEN_TRIGGER_ID, VERTEX_ID, one_word
from pystate.jobmanager.rest.route import RestRequest, RestRoute
from pystate.jobmanager.rest.schemas import (
    FAILURE_CAUSE,
    INTEGER,
    NUMBER,
    REQUEST_ID,
    TEXT,
    TRUTH,
    array,
    async_result,
    either,
    mapping,
    nullable,
    record,
    words,
)

_PATH = "/jobs/{job_id}/checkpoints"
_STATUS = words(*(status.value for status in CheckpointStatsStatus))
_PERCENTILE = either(NUMBER, words("NaN"))
_SUMMARY = record(
    {
        **dict.fromkeys(("min", "max", "avg"), INTEGER),
        **dict.fromkeys(PERCENTILES, _PERCENTILE),
    }
)
_SUMS = {**{one.name: INTEGER for one in fields(Totals)}, "num_subtasks": INTEGER, "num_acknowledged_subtasks": INTEGER}
_SLOWEST = {one.name: nullable(INTEGER) for one in fields(Slowest)}
_TASK_FIELDS = {"id": INTEGER, "status": _STATUS, **_SUMS, "uid": TEXT, "name": TEXT, **_SLOWEST}
_CHECKPOINT = record(
    {
        "className": words(*(status.value.lower() for status in CheckpointStatsStatus)),
        "id": INTEGER,
        "status": _STATUS,
        "is_savepoint": TRUTH,
        "savepointFormat": nullable(TEXT),
        "trigger_timestamp": INTEGER,
        **_SUMS,
        "checkpoint_type": words("CHECKPOINT", "SAVEPOINT"),
        "tasks": mapping(record(_TASK_FIELDS)),
        "epoch": nullable(INTEGER),
        "path": nullable(TEXT),
        "restore_timestamp": nullable(INTEGER),
        **_SLOWEST,
    },
    {
        "external_path": nullable(TEXT),
        "discarded": TRUTH,
        "failure_timestamp": INTEGER,
        "failure_message": nullable(TEXT),
        "waits_for_epoch": INTEGER,
        "waits_since": INTEGER,
    },
)
_RESTORED = record({"id": INTEGER, "restore_timestamp": INTEGER, "is_savepoint": TRUTH, "external_path": nullable(TEXT)})
_CHECKPOINTS = record(
    {
        "counts": record({one.name: INTEGER for one in fields(CheckpointStatsCounts)}),
        "summary": record(dict.fromkeys(SUMMARIZED, _SUMMARY)),
        "latest": record(
            {
                **dict.fromkeys(("completed", "savepoint", "failed"), nullable(_CHECKPOINT)),
                "restored": nullable(_RESTORED),
            }
        ),
        "history": array(_CHECKPOINT),
    }
)
_BUFFERED = ("buffered", "processed", "persisted", "duration")
_COMPLETED_SUBTASK = record(
    {
        "className": words("completed"),
        "index": INTEGER,
        "ack_timestamp": INTEGER,
        "end_to_end_duration": INTEGER,
        "checkpointed_size": INTEGER,
        "state_size": INTEGER,
        "checkpoint": record({"sync": INTEGER, "async": INTEGER}),
        "alignment": record(dict.fromkeys(_BUFFERED, INTEGER)),
        "start_delay": INTEGER,
        "unaligned_checkpoint": TRUTH,
        "aborted": TRUTH,
        "status": words("completed"),
    }
)
_PENDING_SUBTASK = record({"className": words("pending"), "index": INTEGER, "status": words("pending_or_failed")})
_SUBTASKS = record(
    {
        **_TASK_FIELDS,
        "summary": record(
            {
                **dict.fromkeys(("checkpointed_size", "state_size", "end_to_end_duration", "start_delay"), _SUMMARY),
                "checkpoint_duration": record({"sync": _SUMMARY, "async": _SUMMARY}),
                "alignment": record(dict.fromkeys(_BUFFERED, _SUMMARY)),
            }
        ),
        "subtasks": array(either(_COMPLETED_SUBTASK, _PENDING_SUBTASK)),
    }
)
_CONFIG = record(
    {
        "mode": words("exactly_once", "at_least_once"),
        **dict.fromkeys(("interval", "timeout", "min_pause", "max_concurrent"), INTEGER),
        "externalization": record({"enabled": TRUTH, "delete_on_cancellation": TRUTH}),
        "state_backend": TEXT,
        "checkpoint_storage": TEXT,
        "unaligned_checkpoints": TRUTH,
        "tolerable_failed_checkpoints": INTEGER,
        "aligned_checkpoint_timeout": INTEGER,
        "checkpoints_after_tasks_finish": TRUTH,
        "state_changelog_enabled": TRUTH,
        "changelog_periodic_materialization_interval": INTEGER,
        "changelog_storage": TEXT,
    }
)
_TRIGGERED = async_result(record({"checkpointId": INTEGER}), record({"failureCause": FAILURE_CAUSE}))
_CHECKPOINT_TYPE = one_word(
    "checkpointType",
    "FULL shares no files with earlier checkpoints.",
    "CONFIGURED",
    ("CONFIGURED", "FULL", "INCREMENTAL"),
    "checkpoint type",
)


def _checkpoints(request: RestRequest) -> dict[str, Any]:
    return request.job.checkpoints.overview()


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


def _trigger(request: RestRequest) -> dict[str, Any]:
    return triggered(request, "trigger_checkpoint", full=request[_CHECKPOINT_TYPE] == "FULL")


def _result(request: RestRequest) -> dict[str, Any]:
    return operation_result(request, checkpoint=True)


ROUTES = (
    RestRoute("GET", _PATH, _checkpoints, "A job's checkpoints: counts, sizes, history.", _CHECKPOINTS, asks_driver=True),
    RestRoute(
        "POST",
        _PATH,
        _trigger,
        "Trigger a checkpoint.",
        REQUEST_ID,
        status=202,
        body=(_CHECKPOINT_TYPE, CHOSEN_TRIGGER_ID),
        asks_driver=True,
        refusals=(409,),
    ),
    RestRoute("GET", f"{_PATH}/{{trigger_id}}", _result, "What became of a trigger.", _TRIGGERED, asks_driver=True),
    RestRoute("GET", f"{_PATH}/config", _config, "How a job's checkpoints are configured.", _CONFIG),
    RestRoute("GET", f"{_PATH}/details/{{checkpoint_id}}", _details, "A checkpoint.", _CHECKPOINT, asks_driver=True),
    RestRoute(
        "GET",
        f"{_PATH}/details/{{checkpoint_id}}/subtasks/{{vertex_id}}",
        _subtasks,
        "An operator's part of a checkpoint, subtask by subtask.",
        _SUBTASKS,
        asks_driver=True,
    ),
)
