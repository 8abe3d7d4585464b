"""Low disk space on the job manager's machine."""

from __future__ import annotations

from http import HTTPStatus

from pystate.common.text.figures import format_size
from pystate.runtime.rest.cluster_messages import DiskInfo, DisksInfo
from pystate_cli.client.rest_client import RestClient, RestError


def low_disks(client: RestClient) -> list[str]:
    """Return a sentence for each disk with less free space than configured; none if the job manager doesn't report disks."""
    found: dict[tuple[int, int], list[DiskInfo]] = {}
    try:
        disks = client.get("/pystate/disks", DisksInfo).disks
    except RestError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return []
    for disk in disks:
        if disk.low:
            found.setdefault((disk.free, disk.total), []).append(disk)
    return [
        f"{format_size(free)} free of {format_size(total)} at {disks[0].path} "
        f"({', '.join(disk.name for disk in disks)}): jobs fail on a full disk"
        for (free, total), disks in found.items()
    ]
