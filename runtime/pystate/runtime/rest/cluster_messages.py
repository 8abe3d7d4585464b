"""The cluster as a whole, and the job manager."""

from __future__ import annotations

from pystate.common.text.plain_data import entry
from pystate.runtime.rest.message import RestMessage


class ClusterOverview(RestMessage):
    """Jobs and slots, counted.

    Attributes:
        taskmanagers: Drivers of jobs that have not ended.
        slots_total: Their slots.
        slots_available: 0: every slot has its job from the start.
        jobs_running: Jobs that have not ended.
        flink_version: The Flink whose REST this is.
        flink_commit: Empty.
        pystate_version: The job manager's own.
    """

    taskmanagers: int
    slots_total: int = entry("slots-total")
    slots_available: int = entry("slots-available")
    jobs_running: int = entry("jobs-running")
    jobs_finished: int = entry("jobs-finished")
    jobs_cancelled: int = entry("jobs-cancelled")
    jobs_failed: int = entry("jobs-failed")
    flink_version: str = entry("flink-version")
    flink_commit: str = entry("flink-commit")
    pystate_version: str = entry("pystate-version")


class Features(RestMessage):
    """What a web page may offer."""

    web_submit: bool = entry("web-submit", default=False)
    web_cancel: bool = entry("web-cancel", default=False)
    web_rescale: bool = entry("web-rescale", default=False)
    web_history: bool = entry("web-history", default=False)


class Leader(RestMessage):
    """The job manager that leads.

    Attributes:
        address: Where it listens, host:port.
        instance: Random digits that tell its process from another one.
    """

    address: str
    instance: str


class DashboardConfiguration(RestMessage):
    """What a web page needs to know.

    Attributes:
        refresh_interval: How often it should ask, in ms.
        timezone_name: The machine's.
        timezone_offset: From UTC, in ms.
        flink_version: The Flink whose REST this is.
        flink_revision: Empty.
        features: What it may offer.
        pystate_version: The job manager's own.
    """

    refresh_interval: int = entry("refresh-interval", default=3000)
    timezone_name: str = entry("timezone-name", default="UTC")
    timezone_offset: int = entry("timezone-offset", default=0)
    flink_version: str = entry("flink-version", default="")
    flink_revision: str = entry("flink-revision", default="")
    features: Features = Features()
    pystate_version: str | None = entry("pystate-version", default=None)


ITSELF = Leader(address="", instance="")
"""Who leads, as a job manager has it that does: it doesn't say so."""


class StandbyConfiguration(DashboardConfiguration):
    """What a web page needs to know of a job manager that doesn't lead.

    Attributes:
        pystate_leader: Who leads; null where nobody does.
    """

    pystate_leader: Leader | None = entry("pystate-leader", default=ITSELF)


class ClusterConfigurationInfoEntry(RestMessage):
    """An option in force.

    Attributes:
        key: Its name.
        value: Its value as text; asterisks of a secret.
    """

    key: str
    value: str


class LogInfo(RestMessage):
    """A log file.

    Attributes:
        name: Its name.
        size: Its bytes.
        mtime: When it was last written to.
    """

    name: str
    size: int
    mtime: int


class LogListInfo(RestMessage):
    """The job manager's log files."""

    logs: list[LogInfo]


class DiskInfo(RestMessage):
    """A disk.

    Attributes:
        name: What lies there.
        path: The folder.
        free: Bytes that are free.
        total: Bytes in all.
        low: Whether less is free than `pystate.disk.min-free`.
    """

    name: str
    path: str
    free: int
    total: int
    low: bool


class DisksInfo(RestMessage):
    """The disks that the job manager and its jobs write to."""

    disks: list[DiskInfo]


class SpareDriverInfo(RestMessage):
    """A driver that has no job yet.

    Attributes:
        pid: Its process.
        state: `WARMING`, or `READY`.
        duration: Milliseconds for which it is in this state.
        memory: Bytes that it holds, with its JVM and all else that it has started; 0 where nobody can tell.
        working_directory: The folder from which its job must be submitted.
        parallelism: The parallelism that its job must have.
    """

    pid: int
    state: str
    duration: int
    memory: int
    working_directory: str = entry("working-directory")
    parallelism: int


class SpareDriversInfo(RestMessage):
    """The drivers that are there before their jobs.

    Attributes:
        size: How many there are to be, `jobmanager.spare-drivers`.
    """

    size: int
    spare_drivers: list[SpareDriverInfo] = entry("spare-drivers")


class LoginCode(RestMessage):
    """A code that one log-in at the dashboard may use, within two minutes."""

    code: str
