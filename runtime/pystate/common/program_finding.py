"""What a check of a program finds, each with the line of the program that it concerns."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from pystate.common.errors import PystateError
from pystate.common.text.plain_data import PlainData

_PLACE = re.compile(r'(?:^|, |File ")(?P<file>[^",\n]+)"?, line (?P<line>\d+)')


class Severity(str, Enum):
    """How bad a finding is."""

    ERROR = "error"  # the job would fail
    WARNING = "warning"
    NOTE = "note"  # what could not be looked at


@dataclass(frozen=True)
class ProgramFinding(PlainData):
    """What is wrong with a program, or may be.

    Attributes:
        severity: How bad it is.
        check: What found it: `program`, `function`, `uid`, `graph`, `types`, `state`, `configuration`, `savepoint`.
        message: What it is.
        where: The place as the error names it: a uid, an option, a line.
        hint: What to do.
        file: The file of the program; None if no line is known.
        line: The line there.
    """

    severity: Severity
    check: str
    message: str
    where: str | None = None
    hint: str | None = None
    file: str | None = None
    line: int | None = None

    @staticmethod
    def of(error: PystateError, check: str, place: str | None = None, severity: Severity = Severity.ERROR) -> ProgramFinding:
        """Return the finding for an error.

        Args:
            error: What a start of the job would raise.
            check: What has found it.
            place: The line of the program, where the error doesn't name a better one.
            severity: How bad it is.
        """
        found = list(_PLACE.finditer(error.where or "")) or list(_PLACE.finditer(place or ""))
        file, line = (found[-1]["file"], int(found[-1]["line"])) if found else (None, None)
        where = _PLACE.sub("", error.where or "").strip(", \n") or None
        return ProgramFinding(severity, check, error.message, where, error.hint, file, line)
