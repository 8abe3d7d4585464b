"""What all messages of REST are: frozen, with the names of Flink's JSON beside their own, and read leniently."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pystate.common.errors import PystateError
from pystate.common.plain_data import Pattern, PlainData

HexId = Annotated[str, Pattern("^[0-9a-f]{32}$")]
"""The id of a job, a vertex or a trigger."""


class UnreadableAnswerError(PystateError):
    """An answer of REST is not what this version takes it for."""


@dataclass(frozen=True, kw_only=True)
class RestMessage(PlainData):
    """Base of messages. Job managers and command lines of other versions send them too: what isn't known here is ignored,
    and what has a default may be missing.
    """  # noqa: D205

    missing_is_default: ClassVar[bool] = True

    @classmethod
    def plain_error(cls, what: str) -> Exception:
        """Return the error for JSON that is something else."""
        message = f"The job manager's answer can't be read: {what}."
        return UnreadableAnswerError(message)


@dataclass(frozen=True, kw_only=True)
class EmptyResponseBody(RestMessage):
    """Nothing more to say."""
