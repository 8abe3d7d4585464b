"""The routes about the job manager's own configuration and log."""

from __future__ import annotations

from pathlib import Path

from starlette.responses import FileResponse, Response

from pystate.common.configuration.sensitive_keys import without_secrets
from pystate.ops.jobmanager.rest.parameters import LOG_NAME
from pystate.ops.jobmanager.rest.rest_errors import NotFoundError
from pystate.ops.jobmanager.rest.route import RestRequest, RestRoute
from pystate.runtime.rest.cluster_messages import (
    ClusterConfigurationInfoEntry,
    DiskInfo,
    DisksInfo,
    LoginCode,
    LogInfo,
    LogListInfo,
    SpareDriverInfo,
    SpareDriversInfo,
)

_LOG_TYPE = "text/plain"


def _config(request: RestRequest) -> list[ClusterConfigurationInfoEntry]:
    shown = without_secrets(request.context.configuration)
    return [ClusterConfigurationInfoEntry(key=key, value=value) for key, value in sorted(shown.items())]


def _logs(request: RestRequest) -> LogListInfo:
    return LogListInfo(
        logs=[
            LogInfo(name=path.name, size=found.st_size, mtime=int(found.st_mtime * 1000))
            for path in _log_files(request)
            for found in [path.stat()]
        ]
    )


def _log(request: RestRequest) -> Response:
    return _send(request, request.dispatcher.home.jobmanager_log.name)


def _log_file(request: RestRequest) -> Response:
    return _send(request, request[LOG_NAME])


def _log_files(request: RestRequest) -> list[Path]:
    log = request.dispatcher.home.jobmanager_log
    return sorted(path for path in log.parent.glob(f"{log.name}*") if path.is_file() and not path.is_symlink())


def _send(request: RestRequest, name: str) -> Response:
    # only listed files can be read, so no name can point elsewhere
    path = next((path for path in _log_files(request) if path.name == name), None)
    if path is None:
        message = f"There is no log {name!r}."
        raise NotFoundError(message)
    return FileResponse(path, media_type=_LOG_TYPE)


def _disks(request: RestRequest) -> DisksInfo:
    return DisksInfo(
        disks=[
            DiskInfo(name=disk.name, path=str(disk.path), free=disk.free, total=disk.total, low=disk.is_low)
            for disk in request.context.disks.current()
        ]
    )


def _spare_drivers(request: RestRequest) -> SpareDriversInfo:
    spares = request.dispatcher.spares
    return SpareDriversInfo(
        size=0 if spares is None else spares.size,
        spare_drivers=[
            SpareDriverInfo(
                pid=one.pid,
                state=one.spare.state.value,
                duration=one.age,
                memory=one.memory,
                working_directory=one.spare.kind.working_directory,
                parallelism=one.spare.kind.parallelism,
            )
            for one in ([] if spares is None else spares.facts())
        ],
    )


def _login_code(request: RestRequest) -> LoginCode:
    return LoginCode(code=request.context.login_code())


ROUTES = (
    RestRoute(
        "POST",
        "/pystate/login-codes",
        _login_code,
        "Make a code that one log-in at the dashboard may use, within two minutes.",
        LoginCode,
        status=201,
        owner_only=True,
    ),
    RestRoute(
        "GET",
        "/pystate/spare-drivers",
        _spare_drivers,
        "The drivers that are warm, or get warm, before they have a job.",
        SpareDriversInfo,
    ),
    RestRoute(
        "GET", "/pystate/disks", _disks, "The room on the disks that the job manager and its jobs write to.", DisksInfo
    ),
    RestRoute(
        "GET", "/jobmanager/config", _config, "The options in force, secrets hidden.", list[ClusterConfigurationInfoEntry]
    ),
    RestRoute("GET", "/jobmanager/logs", _logs, "The job manager's log files.", LogListInfo, owner_only=True),
    RestRoute(
        "GET",
        "/jobmanager/logs/{log_name}",
        _log_file,
        "One of the job manager's log files.",
        None,
        media_type=_LOG_TYPE,
        owner_only=True,
        refusals=(404,),
    ),
    RestRoute(
        "GET",
        "/jobmanager/log",
        _log,
        "The job manager's log.",
        None,
        media_type=_LOG_TYPE,
        owner_only=True,
        refusals=(404,),
    ),
)
