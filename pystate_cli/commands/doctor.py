"""`pystate doctor`."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from pystate.common.errors import ConfigurationError
from pystate.connectors.finding import Finding, Health, fail, ok, warn
from pystate_cli.arguments.options import ConfDirOption, JobManagerOption, JsonOption, PropertyOption, VerboseOption
from pystate_cli.doctor import connectors, kubernetes, machine, present_session, service, storage, yarn
from pystate_cli.session import Session
from pystate_cli.views.finding_list import plain_lines, verdict, view

if TYPE_CHECKING:
    from pystate.common.configuration.configuration import Configuration


class Target(str, Enum):
    """Where jobs are to run."""

    SESSION = "session"
    YARN = "yarn"
    K8S = "k8s"


def doctor(
    context: typer.Context,
    spark: Annotated[
        bool, typer.Option("--spark", help="Also start Spark and run a small job in it.", show_default=False)
    ] = False,
    target: Annotated[
        Target | None,
        typer.Option(
            metavar="session|yarn|k8s",
            help="Look whether jobs can run in a session that programs make, on YARN, or on Kubernetes.",
        ),
    ] = None,
    conf_dir: ConfDirOption = None,
    properties: PropertyOption = None,
    as_json: JsonOption = False,
    job_manager: JobManagerOption = None,
    verbose: VerboseOption = False,
) -> int:
    """Look whether jobs can run here: Python, Java, Spark, cores, storage, ports, job manager, disks, clock.

    Each line is ok, warn or fail, with the next command, or none: a connector's client isn't installed. The exit code is 1
    where one fails.
    """
    session = Session.of(context)
    console = session.console
    findings: list[Finding] = []
    for finding in _findings(session, conf_dir, properties or [], job_manager, start_spark=spark, target=target):
        findings.append(finding)
        if as_json:
            continue
        if console.is_terminal:
            console.render(view(finding, console.width, unicode=console.has_unicode))
            continue
        for line in plain_lines(finding):
            console.result(line)
    failed = any(finding.health is Health.FAIL for finding in findings)
    if as_json:
        console.result_json({"ok": not failed, "checks": [finding.to_plain() for finding in findings]})
    else:
        console.info(verdict(findings))
    return 1 if failed else 0


def _findings(
    session: Session,
    conf_dir: str | None,
    properties: list[str],
    address: str | None,
    *,
    start_spark: bool,
    target: Target | None,
) -> Iterator[Finding]:
    yield machine.check_python()
    yield machine.check_packages()
    yield machine.check_open_files()
    with session.console.waiting("Looking for Java"):
        java = machine.check_java(session.home)
    yield java
    with session.console.waiting("Starting Spark" if start_spark else "Looking for Spark"):
        spark = machine.check_spark(start=start_spark)
    yield spark
    yield service.check_home(session.home)
    of_target = [yarn.MASTER] if target is Target.YARN else []
    configuration = yield from _configuration(session, conf_dir, [*properties, *of_target])
    if configuration is None:
        return
    yield from connectors.check_connectors(configuration)
    if target is Target.SESSION:
        with session.console.waiting("Asking Spark for its settings"):
            settings = list(present_session.check_session(configuration))
        yield from settings
    else:
        yield machine.check_cores(configuration)
        yield from machine.check_authentication(configuration)
    if target is Target.YARN:
        with session.console.waiting("Asking YARN"):
            found = list(yarn.check_yarn(configuration))
        yield from found
    if target is Target.K8S:
        with session.console.waiting("Asking Kubernetes"):
            found = list(kubernetes.check_kubernetes(configuration))
        yield from found
    with session.console.waiting("Trying the storage"):
        stored = list(storage.check_storage(configuration))
    yield from stored
    yield from service.check_job_manager(session.home, configuration, address)
    from pystate.common.configuration.groups.job_manager_options import JobManagerOptions

    limit = configuration.get(JobManagerOptions.MIN_FREE_DISK)
    yield from machine.check_disks(session.home, storage.local_places(configuration), limit)
    yield machine.check_clock()


def _configuration(
    session: Session, conf_dir: str | None, properties: list[str]
) -> Generator[Finding, None, Configuration | None]:
    from pystate.common.configuration.file_system_settings import initialize
    from pystate.common.configuration.loaded_configuration import load_configuration, parse_dynamic_properties

    try:
        loaded = load_configuration(conf_dir, parse_dynamic_properties(properties), home=session.home)
        initialize(loaded.configuration)
    except ConfigurationError as error:
        where = f" ({error.where})" if error.where else ""
        yield fail("settings", f"{error.message}{where}", error.hint or "pystate config")
        return None
    source = str(loaded.source) if loaded.source is not None else "pystate's own; no flink-conf.toml was found"
    if loaded.notices:
        yield warn("settings", f"{source}: {loaded.notices[0]}", "pystate config --set-only")
    else:
        yield ok("settings", source)
    return loaded.configuration
