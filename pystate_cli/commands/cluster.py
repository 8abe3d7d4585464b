"""`pystate cluster start|stop|status`: the job manager of this home."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pystate.common.errors import ControlError, PystateError
from pystate.common.files.job_manager_entry import read_job_manager
from pystate.common.job_status import JobStatus
from pystate.common.time import current_time_ms
from pystate.runtime.rest.cluster_messages import ITSELF, SpareDriversInfo, StandbyConfiguration
from pystate.runtime.rest.job_messages import JobIdsWithStatusOverview
from pystate_cli.arguments.options import ConfDirOption, JsonOption, PropertyOption, VerboseOption
from pystate_cli.client.absent_job_manager import absent_job_manager
from pystate_cli.client.job_manager import (
    become_job_manager,
    find_job_manager,
    options_not_in_force,
    own_job_manager,
    start_job_manager,
    stop_job_manager,
)
from pystate_cli.client.rest_client import NoJobManagerError, RestClient
from pystate_cli.running.waiting import await_end
from pystate_cli.session import Session

if TYPE_CHECKING:
    from pystate.common.configuration.configuration import Configuration
    from pystate_cli.views.cluster_status import ClusterStatus

_STOP_SECONDS = 30.0
_LEADER_TIMEOUT_SECONDS = 5.0

cluster = typer.Typer(name="cluster", help="Start, stop and look at the job manager of this home.", no_args_is_help=True)


@cluster.command("start")
def start(
    context: typer.Context,
    conf_dir: ConfDirOption = None,
    properties: PropertyOption = None,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Be the job manager, as containers want it; its log goes to stderr.")
    ] = False,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Start the job manager where none runs, and print its address."""
    from pystate.common.configuration.groups.security_options import SecurityOptions, unauthenticated_warning
    from pystate.common.configuration.groups.service_options import RestOptions
    from pystate.common.configuration.loaded_configuration import parse_dynamic_properties

    session = Session.of(context)
    asked = parse_dynamic_properties(properties or [])
    configuration = session.configuration(conf_dir, asked).configuration
    if foreground:
        become_job_manager(
            session.home, configuration.get(RestOptions.ADDRESS), configuration.get(RestOptions.PORT), configuration
        )
    with session.console.waiting("The job manager is starting"):
        client, started = start_job_manager(
            session.home,
            configuration.get(RestOptions.ADDRESS),
            configuration.get(RestOptions.PORT),
            _timeout(configuration),
            configuration=configuration,
            warn=session.console.warning,
        )
    pid = (read_job_manager(session.home) or {}).get("pid")
    what = "Started the job manager" if started else "The job manager is running already"
    session.console.info(f"{what} (process {pid}).")
    if not started and (missed := options_not_in_force(client, asked)):
        session.console.warning(
            f"It runs without what was asked for: {', '.join(missed)}. To change that: pystate cluster stop, then start it "
            "again (jobs go on meanwhile)."
        )
    options = SecurityOptions
    if configuration.get(options.REST_ALLOW_UNAUTHENTICATED) and configuration.get(options.REST_TOKEN_FILE) is None:
        session.console.warning(unauthenticated_warning())
    if as_json:
        session.console.result_json({"address": client.address, "pid": pid, "started": started})
    else:
        session.console.result(client.address)


@cluster.command("stop")
def stop(
    context: typer.Context,
    cancel_jobs: Annotated[
        bool, typer.Option("--cancel-jobs", help="Cancel all jobs first, and wait for their ends.", show_default=False)
    ] = False,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Stop the job manager. Running jobs go on, and the next job manager finds them again."""
    session = Session.of(context)
    configuration = session.configuration().configuration
    found = own_job_manager(session.home, _timeout(configuration))
    if found is None:
        if cancel_jobs:
            message = "There is no job manager that could cancel jobs."
            raise NoJobManagerError(message, where=str(session.home.root), hint="pystate cluster start finds them again")
        session.console.info(absent_job_manager(session.home).message)
        if as_json:
            session.console.result_json({"stopped": False, "pid": None, "jobsLeft": None})
        return
    entry, client = found
    role, leader = _role(client)
    if role == "standby" and cancel_jobs:
        message = "The job manager of this home does not lead; the jobs are those of another one."
        raise ControlError(message, where=leader, hint="pystate cancel JOBID")
    leading = None if role == "standby" else client
    running = [] if leading is None else _running(leading)
    if cancel_jobs:
        if leading is None:
            message = f"The job manager (process {entry['pid']}) does not answer; it can't cancel jobs."
            raise ControlError(message, where=str(session.home.root), hint=f"see {session.home.jobmanager_log}")
        _cancel(session, leading, running)
        running = []
    with session.console.waiting("The job manager is ending"):
        stopped = stop_job_manager(entry, _STOP_SECONDS)
    if not stopped:
        message = f"The job manager (process {entry['pid']}) has not ended within {_STOP_SECONDS:.0f} s."
        raise ControlError(message, where=str(session.home.root), hint=f"kill -9 {entry['pid']} ends it, its jobs go on")
    session.console.info(f"Stopped the job manager (process {entry['pid']}).")
    if running:
        one = len(running) == 1
        jobs = "1 job goes" if one else f"{len(running)} jobs go"
        them = "it" if one else "them"
        session.console.info(f"{jobs} on; the next job manager (pystate cluster start, or pystate run) finds {them} again.")
    if as_json:
        session.console.result_json({"stopped": True, "pid": entry["pid"], "jobsLeft": running})


@cluster.command("status")
def status(context: typer.Context, as_json: JsonOption = False, verbose: VerboseOption = False) -> None:
    """Show whether the job manager runs, where, since when, and its jobs by state; exit code 1 where none runs."""
    from pystate_cli.views.cluster_status import spec_for, status_lines, status_table

    session = Session.of(context)
    console = session.console
    configuration = session.configuration().configuration
    found = own_job_manager(session.home, _timeout(configuration))
    if found is None:
        if as_json:
            console.result_json({"status": "stopped", "home": str(session.home.root)})
        raise absent_job_manager(session.home)
    facts = _facts(session, configuration, *found)
    if as_json:
        console.result_json(spec_for(facts).json_object(facts))
    elif console.is_terminal:
        console.render(status_table(facts, console.width, unicode=console.has_unicode))
    else:
        for line in status_lines(facts):
            console.result(line)
    if facts.status != "running":
        message = f"The job manager (process {facts.pid}) runs, and does not answer."
        raise ControlError(message, where=facts.address, hint=f"see {session.home.jobmanager_log}")


def _facts(
    session: Session, configuration: Configuration, entry: dict[str, Any], client: RestClient | None
) -> ClusterStatus:
    from pystate_cli.views.cluster_status import ClusterStatus

    host, port = str(entry["address"]), entry["port"]
    role, leader = _role(client)
    return ClusterStatus(
        status="running" if client is not None else "unresponsive",
        role=role,
        address=f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
        pid=entry["pid"],
        version=entry["version"],
        uptime_ms=max(0, current_time_ms() - int(entry["started_at"])),
        home=str(session.home.root),
        leader=leader,
        jobs=None if client is None else _jobs_of_leader(session, configuration),
        spare_drivers=_spare_drivers(client) if client is not None and role == "leader" else None,
    )


def _spare_drivers(client: RestClient) -> dict[str, int] | None:
    """Return the number of ready and of wanted spare drivers, and their memory; None if none are wanted."""
    found = client.get("/pystate/spare-drivers", SpareDriversInfo)
    if not found.size:
        return None
    ready = sum(one.state == "READY" for one in found.spare_drivers)
    return {"ready": ready, "size": found.size, "memory": sum(one.memory for one in found.spare_drivers)}


def _role(client: RestClient | None) -> tuple[str, str | None]:
    """Return leader or standby and, for a standby, the address of the leader."""
    if client is None:
        return "unknown", None
    leader = client.get("/config", StandbyConfiguration).pystate_leader
    return ("leader", None) if leader == ITSELF else ("standby", None if leader is None else leader.address)


def _jobs_of_leader(session: Session, configuration: Configuration) -> dict[str, int] | None:
    """Return the jobs by state; None if the leader doesn't answer, since the other facts are valid without it."""
    try:
        client = find_job_manager(session.home, None, min(_timeout(configuration), _LEADER_TIMEOUT_SECONDS), configuration)
        counts = Counter(job.status for job in client.get("/jobs", JobIdsWithStatusOverview).jobs)
    except ControlError:
        return None
    return {state.value: counts[state] for state in JobStatus if counts[state]}


def _running(client: RestClient) -> list[str]:
    return [job.id for job in client.get("/jobs", JobIdsWithStatusOverview).jobs if not job.status.is_terminal]


def _cancel(session: Session, client: RestClient, jobs: list[str]) -> None:
    for job_id in jobs:
        try:
            client.patch(f"/jobs/{job_id}?mode=cancel")
        except PystateError as error:  # it may have ended meanwhile
            session.console.warning(error.message)
    with session.console.waiting("The jobs are ending"):
        for job_id in jobs:
            state = await_end(client, job_id)
            session.console.info(f"Job {job_id} has ended ({state.value}).")


def _timeout(configuration: Configuration) -> float:
    from pystate.common.configuration.groups.service_options import ClientOptions

    return configuration.get(ClientOptions.CLIENT_TIMEOUT) / 1000
