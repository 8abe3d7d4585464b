"""The routes about the cluster as a whole, and about slots.

A job's driver with its slots appears as a task manager, with the id of the job.
Memory is managed by Spark and the operating system, and isn't divided among slots: Flink's memory figures are 0.
"""

from __future__ import annotations

import os
from typing import Any

from pystate.common.job_status import JobStatus
from pystate.common.time import current_time_ms
from pystate.ops.jobmanager.rest import status_answers as messages
from pystate.ops.jobmanager.rest.parameters import TASK_MANAGER_ID
from pystate.ops.jobmanager.rest.rest_errors import NotFoundError
from pystate.ops.jobmanager.rest.route import RestRequest, RestRoute
from pystate.ops.jobmanager.supervision.supervised_job import SupervisedJob
from pystate.runtime.rest.cluster_messages import ClusterOverview, DashboardConfiguration, StandbyConfiguration
from pystate.runtime.rest.message import EmptyResponseBody
from pystate.runtime.rest.task_manager_messages import (
    HardwareDescription,
    ResourceProfileInfo,
    SlotInfo,
    TaskManagerDetailsInfo,
    TaskManagerInfo,
    TaskManagersInfo,
)

_CONFIG = DashboardConfiguration | StandbyConfiguration


def _overview(request: RestRequest) -> ClusterOverview:
    return messages.overview(job.status() for job in request.dispatcher.jobs())


def _config(_request: RestRequest) -> DashboardConfiguration:
    return messages.dashboard_config()


def _shut_down(request: RestRequest) -> EmptyResponseBody:
    request.context.shut_down()
    return EmptyResponseBody()


def _resource(cores: int) -> ResourceProfileInfo:
    return ResourceProfileInfo(cores=float(cores))


def _task_manager(job: SupervisedJob, status: dict[str, Any], now: int) -> TaskManagerInfo:
    slots = max(status["parallelism"], 0)
    pages, page_size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return TaskManagerInfo(
        id=job.job_id,
        path=f"process {job.record.pid}",
        time_since_last_heartbeat=now,
        slots_number=slots,
        total_resource=_resource(slots),
        free_resource=_resource(0),
        hardware=HardwareDescription(
            cores=os.cpu_count() or 0,
            physical_memory=pages * page_size,
            free_memory=os.sysconf("SC_AVPHYS_PAGES") * page_size,
        ),
    )


def _all(request: RestRequest) -> TaskManagersInfo:
    now = current_time_ms()
    running = [(job, status) for job in request.dispatcher.jobs() if not _has_ended(status := job.status())]
    return TaskManagersInfo(taskmanagers=[_task_manager(job, status, now) for job, status in running])


def _one(request: RestRequest) -> TaskManagerDetailsInfo:
    job = request.dispatcher.job(request[TASK_MANAGER_ID])
    status = job.status()
    if _has_ended(status):
        message = f"Job {job.job_id} has ended ({status['state']}); it has no slots."
        raise NotFoundError(message)
    found = _task_manager(job, status, current_time_ms())
    slot = SlotInfo(job_id=job.job_id, resource=_resource(1))
    return TaskManagerDetailsInfo(**vars(found), allocated_slots=[slot] * found.slots_number)


def _has_ended(status: dict[str, Any]) -> bool:
    return JobStatus(status["state"]).is_terminal


ROUTES = (
    RestRoute("GET", "/overview", _overview, "Jobs and slots, counted.", ClusterOverview),
    RestRoute("GET", "/config", _config, "What a web page about this job manager needs.", _CONFIG),
    RestRoute("DELETE", "/cluster", _shut_down, "End the job manager; jobs go on.", EmptyResponseBody, owner_only=True),
    RestRoute("GET", "/taskmanagers", _all, "The drivers that run, and their slots.", TaskManagersInfo),
    RestRoute("GET", "/taskmanagers/{taskmanager_id}", _one, "A driver, and its slots.", TaskManagerDetailsInfo),
)
