"""Low disk space on the job manager's machine."""

from __future__ import annotations

from pystate.rest.cluster import DiskInfo, DisksInfo
from pystate_cli.client.rest_client import RestClient
from pystate_cli.console.formats import format_size


def low_disks(client: RestClient) -> list[str]:
    """Return a sentence for each disk with less room than configured."""
    found: dict[tuple[int, int], list[DiskInfo]] = {}
    for disk in client.get("/pystate/disks", DisksInfo).disks:
        if disk.low:
            found.setdefault((disk.free, disk.total), []).append(disk)
    return [
        f"{format_size(free)} free of {format_size(total)} at {disks[0].path} "
        f"({', '.join(disk.name for disk in disks)}): jobs fail on a full disk"
        for (free, total), disks in found.items()
    ]
