"""Parsers of numbers, dates and instants, as Spark's readers of CSV and JSON parse them.

Source: Spark 4.3's UnivocityParser, JacksonParser and SparkDateTimeUtils. Invalid text raises a ValueError.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Sequence
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pystate.common.type_info import TypeKind

RANGES = {TypeKind.BYTE: 7, TypeKind.SHORT: 15, TypeKind.INT: 31, TypeKind.LONG: 63}
"""The bits of integers without their sign."""

_INTEGER = re.compile(r"[+-]?\d+")
_JAVA_SPACE = "".join(map(chr, range(33)))
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_IN_DECIMALS = "0123456789+-.eE"
_BOOLEANS = {"true": True, "false": False}
_HEXADECIMAL = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+")
_DATE = re.compile(r"([+-]?)([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_INSTANT = re.compile(
    r"([+-]?)([0-9]{4,6})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
    r"(?:[ T]([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?)?(.*))?)?)?",
    re.DOTALL,
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::?([0-9]{2})(?::?([0-9]{2}))?)?")
_EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - instants are datetimes in UTC without a zone
_MOST_OFFSET_S = 18 * 3600


def integer(kind: TypeKind) -> Callable[[str], int]:
    """Return a parser of integers of a type, like Java's `parseInt`."""
    bound = 1 << RANGES[kind]

    def read(text: str) -> int:
        if not _INTEGER.fullmatch(text):
            raise no(text, "an integer")
        value = int(text)
        if not -bound <= value < bound:
            raise no(text, f"within {bound.bit_length()} bits")
        return value

    return read


def integers(kind: TypeKind) -> Callable[[Sequence[str]], list[int]]:
    """Return a parser of many texts, each as `integer` parses it."""
    read, bound = integer(kind), 1 << RANGES[kind]

    def read_all(texts: Sequence[str]) -> list[int]:
        if "".join(texts).replace("-", "").isdecimal():  # of such, int() takes what `_INTEGER` does
            try:
                values = list(map(int, texts))
            except ValueError:
                values = []
            if values and -bound <= min(values) and max(values) < bound:
                return values
        return list(map(read, texts))

    return read_all


def number(text: str) -> float:
    """Parse a floating-point number, like Java's `parseDouble` with Spark's names of infinity."""
    if text in ("NaN", "Inf", "-Inf"):
        return float(text)
    trimmed = text.strip(_JAVA_SPACE)
    unsigned = trimmed[1:] if trimmed[:1] in ("+", "-") else trimmed
    if unsigned in ("NaN", "Infinity"):
        return float(trimmed)
    if unsigned[-1:] in ("d", "D", "f", "F"):
        if len(unsigned) > 1 and (_DECIMAL.fullmatch(trimmed[:-1]) or _HEXADECIMAL.fullmatch(trimmed[:-1])):
            trimmed = trimmed[:-1]
    if _DECIMAL.fullmatch(trimmed):
        return float(trimmed)
    if _HEXADECIMAL.fullmatch(trimmed):
        return _from_hexadecimal(trimmed)
    raise no(text, "a number")


def numbers(texts: Sequence[str]) -> list[float]:
    """Parse many texts, each as `number` does."""
    if not "".join(texts).strip(_IN_DECIMALS):  # of such, float() takes what `_DECIMAL` does
        try:
            return list(map(float, texts))
        except ValueError:
            pass
    return list(map(number, texts))


def _from_hexadecimal(text: str) -> float:
    try:
        return float.fromhex(text)
    except OverflowError:
        return math.copysign(math.inf, -1 if text.startswith("-") else 1)


def boolean(text: str) -> bool:
    """Parse `true` or `false`, ignoring case."""
    lower = text.lower()
    if lower not in ("true", "false"):
        raise no(text, "true or false")
    return lower == "true"


def booleans(texts: Sequence[str]) -> list[bool]:
    """Parse many texts, each as `boolean` does."""
    try:
        return [_BOOLEANS[text] for text in texts]
    except KeyError:
        return list(map(boolean, texts))


def date(text: str) -> datetime.date:
    """Parse a date: `yyyy`, `yyyy-[m]m`, `yyyy-[m]m-[d]d`; anything after a space or a T is ignored."""
    found = _DATE.fullmatch(text.strip(_JAVA_SPACE))
    if found is None:
        raise no(text, "a date")
    sign, year, month, day = found.groups()
    return datetime.date(_year(sign, year, text), int(month or 1), int(day or 1))


def instant(zone: str) -> Callable[[str], datetime.datetime]:
    """Return a parser of instants, which returns naive datetimes in UTC.

    Args:
        zone: The time zone of texts without one.
    """
    here = _zone(zone)

    def read(text: str) -> datetime.datetime:
        found = _INSTANT.fullmatch(text.strip(_JAVA_SPACE))
        if found is None:
            raise no(text, "a timestamp")
        sign, year, month, day, hour, minute, second, fraction, rest = found.groups()
        micros = int((fraction or "")[:6].ljust(6, "0"))
        day_of = datetime.date(_year(sign, year, text), int(month or 1), int(day or 1))
        local = datetime.datetime.combine(day_of, datetime.time(int(hour or 0), int(minute or 0), int(second or 0), micros))
        named = (rest or "").strip(_JAVA_SPACE)
        return _in_utc(local, _zone(named) if named else here)

    return read


def from_seconds(seconds: int) -> datetime.datetime:
    """Return the instant this many seconds after 1970."""
    return _EPOCH + datetime.timedelta(seconds=seconds)


def from_days(days: int) -> datetime.date:
    """Return the date this many days after 1970."""
    return _EPOCH.date() + datetime.timedelta(days=days)


def no(text: str, what: str) -> ValueError:
    """Return the error for invalid text."""
    return ValueError(f"{text[:100]!r} is not {what}")


def _year(sign: str, digits: str, text: str) -> int:
    year = int(sign + digits)
    if not datetime.MINYEAR <= year <= datetime.MAXYEAR:
        raise no(text, "within the years that Python has")
    return year


def _zone(name: str) -> datetime.tzinfo:
    if name in ("Z", "UTC", "GMT", "UT"):
        return datetime.timezone.utc
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        sign, hours, minutes, seconds = offset.groups()
        size = int(hours) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
        if size > _MOST_OFFSET_S or int(minutes or 0) > 59 or int(seconds or 0) > 59:
            raise no(name, "an offset")
        return datetime.timezone(datetime.timedelta(seconds=size if sign == "+" else -size))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise no(name, "a zone") from error


def _in_utc(local: datetime.datetime, zone: datetime.tzinfo) -> datetime.datetime:
    aware = local.replace(tzinfo=zone)
    there = aware.astimezone(datetime.timezone.utc)
    return there.replace(tzinfo=None)
