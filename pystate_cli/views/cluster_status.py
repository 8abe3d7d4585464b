"""The job manager at a glance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pystate_cli.console.formats import format_millis
from pystate_cli.views.job_list import STATE_STYLES

if TYPE_CHECKING:
    from rich.table import Table

_ROLE_STYLES = {"leader": "green", "standby": "cyan"}
_STATUS_STYLES = {"running": "green", "unresponsive": "bold red"}


def status_table(facts: dict[str, Any], *, unicode: bool) -> Table:
    """Return the facts of `pystate cluster status`, one below the other.

    Args:
        facts: As `--json` prints them.
        unicode: Whether the terminal can show more than ASCII.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.ROUNDED if unicode else box.ASCII, show_header=False, title="Job manager", title_justify="left")
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    rows = {
        "Status": Text(facts["status"], style=_STATUS_STYLES[facts["status"]]),
        "Role": Text(facts["role"], style=_ROLE_STYLES.get(facts["role"], "")),
        "Address": Text(facts["address"]),
        "Process": Text(str(facts["pid"])),
        "Version": Text(facts["version"]),
        "Uptime": Text(format_millis(facts["uptime_ms"])),
        "Home": Text(facts["home"]),
    }
    if "leader" in facts:
        rows["Leader"] = Text(facts["leader"])
    for label, text in rows.items():
        table.add_row(label, text)
    table.add_row("Jobs", _jobs(facts["jobs"]))
    return table


def _jobs(counts: dict[str, int] | None) -> Any:
    from rich.text import Text

    if counts is None:
        return Text("unknown", style="dim")
    if not counts:
        return Text("none", style="dim")
    parts = [Text(f"{count} {state}", style=STATE_STYLES.get(state, "")) for state, count in counts.items()]
    return Text(", ").join(parts)
