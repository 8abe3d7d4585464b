"""The job manager at a glance: facts, one below the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pystate_cli.console.formats import UNKNOWN, format_millis, format_size
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
        role: `leader`, `standby`, or `unknown` of one that doesn't answer.
        address: Where it listens.
        pid: Its process.
        version: Of which it is.
        uptime_ms: Since when it runs, in ms.
        home: Its home.
        leader: Where the leader is, of a standby.
        jobs: How many are in which state; None where nobody says.
        spare_drivers: How many are warm, and how many there are to be; None where there are to be none.
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
    """Return what is told: of a leader not where it is once more, and of spare drivers where there are to be some."""
    spec = STATUS.without("leader") if one.leader is None else STATUS
    return spec.without("spares") if one.spare_drivers is None else spec


def status_lines(one: ClusterStatus) -> list[str]:
    """Return the facts for a pipe."""
    return labelled(spec_for(one).facts(one), _NO_LIMIT)


def status_table(one: ClusterStatus, width: int, *, unicode: bool) -> RenderableType:
    """Return the facts for a terminal: in a box, or below each other without one where the home's path would break in it.

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
