"""The messages between a job manager and its spare drivers: lines of JSON through pipes.

A spare driver is asked to warm up (`WarmUp`), reports the result (`SpareReport`), and is given a job (`TakenJob`). The pipe
is their only connection: no other process can write to it, and a spare whose pipe ends before it has a job ends, too.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TypeVar

from pystate.common.text.plain_data import PlainData, unless_none

SPARE_VARIABLE = "PYSTATE_SPARE_DRIVER"
"""Set in a spare driver's environment to its id, so that what it started can be told from all other processes."""

M = TypeVar("M", bound="SpareMessage")


@dataclass(frozen=True)
class SpareMessage(PlainData):
    """The base of the messages."""

    def to_line(self) -> bytes:
        """Return it as one line."""
        return json.dumps(self.to_plain()).encode() + b"\n"

    @classmethod
    def from_line(cls: type[M], line: bytes) -> M:
        """Rebuild it.

        Raises:
            ValueError: It isn't one.
        """
        return cls.from_plain(json.loads(line))


@dataclass(frozen=True)
class WarmUp(SpareMessage):
    """Request to warm up.

    Attributes:
        spare_id: 32 hex digits; the name of the folder that the spare may use.
        configuration: Key -> text: the configuration of the session.
        practises: Whether to run a small job in the session, too.
    """

    spare_id: str
    configuration: dict[str, str]
    practises: bool = True


@dataclass(frozen=True)
class SpareReport(SpareMessage):
    """The result of the warm-up.

    Attributes:
        failure: Why there is no session; None if there is one.
    """

    failure: str | None = unless_none()


@dataclass(frozen=True)
class TakenJob(SpareMessage):
    """Request to become the driver of a job.

    Attributes:
        job_id: 32 hex digits.
        job_file: The program, an absolute path.
        arguments: Its arguments.
        environment: The driver's environment variables.
    """

    job_id: str
    job_file: str
    arguments: list[str]
    environment: dict[str, str]
