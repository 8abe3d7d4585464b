"""Formats times by the numeric patterns of Java's DateTimeFormatter."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pystate.common.errors import JobGraphError

_NUMBERS: dict[str, Callable[[dt.datetime], int]] = {
    "M": lambda at: at.month,
    "L": lambda at: at.month,
    "d": lambda at: at.day,
    "D": lambda at: at.timetuple().tm_yday,
    "H": lambda at: at.hour,
    "k": lambda at: at.hour or 24,
    "K": lambda at: at.hour % 12,
    "h": lambda at: at.hour % 12 or 12,
    "m": lambda at: at.minute,
    "s": lambda at: at.second,
}
_WIDEST = {"D": 3}
_TOKENS = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|[^A-Za-z']+", re.DOTALL)
_OFFSET = re.compile(r"(?:GMT|UTC|UT)?([+-])(\d{1,2})(?::?(\d{2}))?")
_DAY_MS = 86_400_000


class DatePattern:
    """A pattern such as "yyyy-MM-dd--HH".

    Args:
        pattern: Letters for numbers (y u M L d D H k K h m s S), anything else literal, letters in quotes.

    Attributes:
        step_ms: The text changes at whole multiples of this only.

    Raises:
        JobGraphError: It has another letter, or more of one than there are digits.
    """

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        letters = {name for name, _ in self._parts() if name}
        self.step_ms = 1 if "S" in letters else 1_000 if "s" in letters else 60_000

    def text(self, epoch_ms: int, zone: dt.tzinfo | None) -> str:
        """Return the text of a time in a time zone; None for the machine's zone."""
        at = dt.datetime.fromtimestamp(epoch_ms // 1000, dt.timezone.utc).astimezone(zone)
        return "".join(_number(name, text, at, epoch_ms % 1000) if name else text for name, text in self._parts())

    def _parts(self) -> list[tuple[str, str]]:
        """Return pairs: (letter, its repetitions), or ("", a literal)."""
        parts, end = [], 0
        for match in _TOKENS.finditer(self._pattern):
            if match.start() != end:
                break
            end, token = match.end(), match[0]
            if match[1]:
                self._check(match[1], token)
                parts.append((match[1], token))
            else:
                quoted = token.startswith("'")
                parts.append(("", token[1:-1].replace("''", "'") or "'" if quoted else token))
        if end != len(self._pattern):
            message = f"{self._pattern!r} has a quote that doesn't end."
            raise JobGraphError(message, where="date_time_bucket_assigner")
        return parts

    def _check(self, letter: str, run: str) -> None:
        known = letter in "yuS" or (letter in _NUMBERS and len(run) <= _WIDEST.get(letter, 2))
        if not known:
            message = f"The pattern {self._pattern!r} has {run!r}, which isn't known here."
            hint = "numbers are: yyyy, MM, dd, HH, mm, ss, SSS; text stands in quotes; or write a BucketAssigner"
            raise JobGraphError(message, where="date_time_bucket_assigner", hint=hint)


def _number(letter: str, run: str, at: dt.datetime, millis: int) -> str:
    if letter == "S":
        return f"{millis:03d}".ljust(len(run), "0")[: len(run)]
    if letter in "yu":
        return f"{at.year % 100:02d}" if len(run) == 2 else str(at.year).zfill(len(run))
    return str(_NUMBERS[letter](at)).zfill(len(run))


def zone_of(timezone_id: str | None) -> dt.tzinfo | None:
    """Return the time zone of a Java name; None for the machine's zone.

    Raises:
        JobGraphError: There is no such zone.
    """
    if timezone_id is None:
        return None
    offset = _OFFSET.fullmatch(timezone_id)
    if offset is not None:
        distance = dt.timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0))
        return dt.timezone(distance if offset[1] == "+" else -distance)
    if timezone_id == "Z":
        return dt.timezone.utc
    try:
        return ZoneInfo(timezone_id)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        message = f"There is no time zone {timezone_id!r}."
        raise JobGraphError(message, hint='"Europe/Berlin", "UTC" and "GMT-08:00" are some') from error
