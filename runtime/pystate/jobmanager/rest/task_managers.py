"""The routes about slots. A job's driver with its slots is what Flink calls a task manager, so it has the id of the job.

Memory is Spark's and the operating system's here, it isn't divided among slots: Flink's figures of it are 0.
"""

from __future__ import annotations

import os
from typing import Any

from pystate.common.job_status import JobStatus
from pystate.common.time import current_time_ms
from pystate.jobmanager.rest.errors import NotFoundError
from pystate.jobmanager.rest.parameters import TASK_MANAGER_ID
from pystate.jobmanager.rest.route import RestRequest, RestRoute
from pystate.jobmanager.rest.schemas import EMPTY, HEX_ID, INTEGER, NUMBER, TEXT, TRUTH, array, record
from pystate.jobmanager.supervised_job import SupervisedJob

_MEMORY = ("taskHeapMemory", "taskOffHeapMemory", "managedMemory", "networkMemory")
_RESOURCE = record({"cpuCores": NUMBER, **dict.fromkeys(_MEMORY, INTEGER), "extendedResources": EMPTY})
_HARDWARE = ("cpuCores", "physicalMemory", "freeMemory", "managedMemory")
_FIELDS = {
    "id": HEX_ID,
    "path": TEXT,
    "dataPort": INTEGER,
    "jmxPort": INTEGER,
    "timeSinceLastHeartbeat": INTEGER,
    "slotsNumber": INTEGER,
    "freeSlots": INTEGER,
    "totalResource": _RESOURCE,
    "freeResource": _RESOURCE,
    "hardware": record(dict.fromkeys(_HARDWARE, INTEGER)),
    "blocked": TRUTH,
}
_SLOT = record({"jobId": HEX_ID, "resource": _RESOURCE})
_TASK_MANAGERS = record({"taskmanagers": array(record(_FIELDS))})
_TASK_MANAGER = record({**_FIELDS, "allocatedSlots": array(_SLOT)})


def _resource(cores: int) -> dict[str, Any]:
    return {"cpuCores": float(cores), **dict.fromkeys(_MEMORY, 0), "extendedResources": {}}


def _task_manager(job: SupervisedJob, status: dict[str, Any], now: int) -> dict[str, Any]:
    slots = max(status["parallelism"], 0)
    pages, page_size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        "id": job.job_id,
        "path": f"process {job.record.pid}",
        "dataPort": 0,
        "jmxPort": -1,
        "timeSinceLastHeartbeat": now,
        "slotsNumber": slots,
        "freeSlots": 0,
        "totalResource": _resource(slots),
        "freeResource": _resource(0),
        "hardware": {
            "cpuCores": os.cpu_count() or 0,
            "physicalMemory": pages * page_size,
            "freeMemory": os.sysconf("SC_AVPHYS_PAGES") * page_size,
            "managedMemory": 0,
        },
        "blocked": False,
    }


def _all(request: RestRequest) -> dict[str, Any]:
    now = current_time_ms()
    running = [(job, status) for job in request.dispatcher.jobs() if not _has_ended(status := job.status())]
    return {"taskmanagers": [_task_manager(job, status, now) for job, status in running]}


def _one(request: RestRequest) -> dict[str, Any]:
    job = request.dispatcher.job(request[TASK_MANAGER_ID])
    status = job.status()
    if _has_ended(status):
        message = f"Job {job.job_id} has ended ({status['state']}); it has no slots."
        raise NotFoundError(message)
    found = _task_manager(job, status, current_time_ms())
    slot = {"jobId": job.job_id, "resource": _resource(1)}
    return {**found, "allocatedSlots": [slot] * found["slotsNumber"]}


def _has_ended(status: dict[str, Any]) -> bool:
    return JobStatus(status["state"]).is_terminal


ROUTES = (
    RestRoute("GET", "/taskmanagers", _all, "The drivers that run, and their slots.", _TASK_MANAGERS),
    RestRoute("GET", "/taskmanagers/{taskmanager_id}", _one, "One of them.", _TASK_MANAGER),
)
