"""The status of the job manager, as a list of facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pystate.common.text.figures import UNKNOWN, format_millis, format_size
from pystate_cli.tables.column import Column
from pystate_cli.tables.facts import labelled
from pystate_cli.tables.kinds import TEXT, Kind
from pystate_cli.tables.table_spec import TableSpec
from pystate_cli.views.job_list import STATE_STYLES

if TYPE_CHECKING:
    from rich.console import RenderableType

_ROLE_STYLES = {"leader": "green", "standby": "cyan"}
_STATUS_STYLES = {"running": "green", "unresponsive": "bold red"}
_NO_LIMIT = 10_000
_BOX = 7
"""Columns of the lines and margins of a box with two columns."""


@dataclass(frozen=True)
class ClusterStatus:
    """A job manager.

    Attributes:
        status: `running`, or `unresponsive`.
        role: `leader`, `standby`, or `unknown` if it doesn't answer.
        address: The address it listens on.
        pid: Its process id.
        version: Its version.
        uptime_ms: How long it has run, in ms.
        home: Its home.
        leader: The address of the leader, for a standby.
        jobs: The number of jobs by state; None if unknown.
        spare_drivers: The number of warm and of wanted spare drivers; None if none are wanted.
    """

    status: str
    role: str
    address: str
    pid: int
    version: str
    uptime_ms: int
    home: str
    leader: str | None
    jobs: Mapping[str, int] | None
    spare_drivers: Mapping[str, int] | None = None


def _spares(spares: Mapping[str, int] | None) -> str:
    if spares is None:
        return UNKNOWN
    memory = f", {format_size(spares['memory'])}" if spares["memory"] else ""
    return f"{spares['ready']} of {spares['size']} ready{memory}"


def _counts(jobs: Mapping[str, int] | None) -> str:
    return "unknown" if jobs is None else ", ".join(f"{count} {state}" for state, count in jobs.items()) or "none"


_SPAN = Kind(lambda value, _: format_millis(value), format_millis)
_SPARES = Kind(lambda value, _: _spares(value), _spares)
_JOBS = Kind(lambda value, _: _counts(value), _counts)
STATUS: TableSpec[ClusterStatus] = TableSpec(
    (
        Column(
            "status", lambda one: one.status, TEXT, "Status", plain="status", json="status",
            style=lambda one: _STATUS_STYLES[one.status],
        ),
        Column(
            "role", lambda one: one.role, TEXT, "Role", plain="role", json="role",
            style=lambda one: _ROLE_STYLES.get(one.role, ""),
        ),
        Column("address", lambda one: one.address, TEXT, "Address", plain="address", json="address"),
        Column("pid", lambda one: one.pid, TEXT, "Process", plain="pid", json="pid"),
        Column("version", lambda one: one.version, TEXT, "Version", plain="version", json="version"),
        Column("uptime", lambda one: one.uptime_ms, _SPAN, "Uptime", plain="uptime", json="uptimeMs"),
        Column("home", lambda one: one.home, TEXT, "Home", plain="home", json="home"),
        Column("leader", lambda one: one.leader, TEXT, "Leader", plain="leader", json="leader"),
        Column("jobs", lambda one: one.jobs, _JOBS, "Jobs", plain="jobs", json="jobs"),
        Column("spares", lambda one: one.spare_drivers, _SPARES, "Spare drivers", plain="spares", json="spareDrivers"),
    ),
    plain_order=("status", "address", "pid", "version", "uptime", "home", "role", "leader", "jobs", "spares"),
)  # fmt: skip
"""`pystate cluster status`: a fact per column, one below the other."""


def spec_for(one: ClusterStatus) -> TableSpec[ClusterStatus]:
    """Return the specification of facts: a leader's address isn't repeated, and spare drivers are shown only if wanted."""
    spec = STATUS.without("leader") if one.leader is None else STATUS
    return spec.without("spares") if one.spare_drivers is None else spec


def status_lines(one: ClusterStatus) -> list[str]:
    """Return the facts for a pipe."""
    return labelled(spec_for(one).facts(one), _NO_LIMIT)


def status_table(one: ClusterStatus, width: int, *, unicode: bool) -> RenderableType:
    """Return the facts for a terminal: in a box, or without one if the home's path would be broken.

    Args:
        one: The job manager.
        width: Columns of the terminal.
        unicode: Whether the terminal can show more than ASCII.
    """
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    pairs = spec_for(one).facts(one)
    if max(len(label) for label, _ in pairs) + max(len(text) for _, text in pairs) + _BOX > width:
        return Group(*map(Text, labelled(pairs, width)))
    table = Table(box=box.ROUNDED if unicode else box.ASCII, show_header=False, title="Job manager", title_justify="left")
    table.add_column(style="dim", no_wrap=True)
    table.add_column(no_wrap=True)
    for column in spec_for(one).columns:
        shown = _jobs(one.jobs) if column.name == "jobs" else Text(column.plain_text(one), style=column.text_style(one))
        table.add_row(column.heading or UNKNOWN, shown)
    return table


def _jobs(counts: Mapping[str, int] | None) -> Any:
    from rich.text import Text

    if not counts:
        return Text(_counts(counts), style="dim")
    parts = [Text(f"{count} {state}", style=STATE_STYLES.get(state, "")) for state, count in counts.items()]
    return Text(", ").join(parts)
