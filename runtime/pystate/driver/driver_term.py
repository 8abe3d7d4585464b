"""Which driver runs a job: the one that said so last.

A driver that was stopped, or slept with its machine, may go on after another one has taken the job over. It must then
complete no checkpoint, hand nothing to a sink, and write none of the job's files.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from pystate.common.errors import DriverReplacedError
from pystate.common.home import read_json, write_json


class DriverTerm:
    """The time in which one driver runs a job.

    Args:
        path: The file that names the driver whose time it is.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._token = secrets.token_hex(16)

    def begin(self) -> None:
        """Take the job over from whoever had it."""
        write_json(self._path, {"driver": self._token, "pid": os.getpid()})

    def check(self) -> None:
        """Make sure that nobody has taken the job over since.

        Raises:
            DriverReplacedError: Another driver has.
        """
        named = read_json(self._path)
        if named is not None and named["driver"] != self._token:
            message = (
                f"Another driver (process {named['pid']}) has taken the job over; this one (process {os.getpid()}) ends."
            )
            raise DriverReplacedError(message, where=str(self._path))
