"""Durations, instants, and the notation of durations and memory sizes in configuration files (as in Flink)."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

_MAX_LONG = 2**63 - 1
_NUMBER_UNIT = re.compile(r"\s*([0-9]+)\s*([^\s0-9.,+-]*)\s*")

# Flink's TimeUtils: unit names -> nanoseconds
_DURATION_UNITS: dict[str, int] = {
    name: length
    for names, length in (
        (("d", "day", "days"), 86_400_000_000_000),
        (("h", "hour", "hours"), 3_600_000_000_000),
        (("m", "min", "minute", "minutes"), 60_000_000_000),
        (("s", "sec", "secs", "second", "seconds"), 1_000_000_000),
        (("ms", "milli", "millis", "millisecond", "milliseconds", ""), 1_000_000),
        (("us", "µs", "micro", "micros", "microsecond", "microseconds"), 1_000),
        (("ns", "nano", "nanos", "nanosecond", "nanoseconds"), 1),
    )
    for name in names
}
# Flink's MemorySize: unit names -> bytes
_MEMORY_UNITS: dict[str, int] = {
    name: size
    for names, size in (
        (("", "b", "byte", "bytes"), 1),
        (("k", "kb", "kibibyte", "kibibytes"), 1 << 10),
        (("m", "mb", "mebibyte", "mebibytes"), 1 << 20),
        (("g", "gb", "gibibyte", "gibibytes"), 1 << 30),
        (("t", "tb", "tebibyte", "tebibytes"), 1 << 40),
    )
    for name in names
}


def steady_ms() -> int:
    """Return milliseconds of a monotonic clock that keeps running while the machine sleeps."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(clock) // 1_000_000


def current_time_ms() -> int:
    """Return the current time, ms since 1970."""
    return time.time_ns() // 1_000_000


def parse_duration(text: str) -> int:
    """Return a length of time in milliseconds.

    Args:
        text: A whole number and a unit, such as `10 min`, `500 ms`, `3s`, `1 h`, `30d`; a bare number is milliseconds.

    Raises:
        ValueError: The text is something else, or not a whole number of milliseconds.
    """
    match = _NUMBER_UNIT.fullmatch(text)
    unit = _DURATION_UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        message = f"{text!r} is not a duration: a whole number and one of d, h, min, s, ms, as in '10 min' or '500 ms'."
        raise ValueError(message)
    millis, rest = divmod(int(match[1]) * unit, 1_000_000)
    if rest or millis > _MAX_LONG:
        message = f"{text!r} is not a duration this can hold: it must be a whole number of milliseconds below 2 to the 63rd."
        raise ValueError(message)
    return millis


def format_duration(millis: int) -> str:
    """Return a duration in the largest unit without remainder, such as `10 min`; `parse_duration` reads it back."""
    if millis < 0:
        message = f"A duration can't be negative: {millis} ms."
        raise ValueError(message)
    for unit, length in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
        if millis and millis % length == 0:
            return f"{millis // length} {unit}"
    return f"{millis} ms"


def parse_memory_size(text: str) -> int:
    """Return a memory size in bytes.

    Args:
        text: A whole number and a unit, such as `20 kb`, `64mb`, `1 gb`; a bare number is bytes; units are powers of 1024.

    Raises:
        ValueError: The text is something else.
    """
    match = _NUMBER_UNIT.fullmatch(text)
    unit = _MEMORY_UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        message = f"{text!r} is not a memory size: a whole number and one of b, kb, mb, gb, tb, as in '20 kb' or '1 gb'."
        raise ValueError(message)
    size = int(match[1]) * unit
    if size > _MAX_LONG:
        message = f"{text!r} is more bytes than 2 to the 63rd."
        raise ValueError(message)
    return size


@dataclass(frozen=True, order=True, init=False)
class Time:
    """A length of time, as used in older methods of Flink's API.

    Args:
        milliseconds: How long it is.
    """

    _millis: int

    def __init__(self, milliseconds: int) -> None:
        object.__setattr__(self, "_millis", milliseconds)

    @staticmethod
    def milliseconds(milliseconds: int) -> Time:
        """Return a length of time in milliseconds."""
        return Time(milliseconds)

    @staticmethod
    def seconds(seconds: int) -> Time:
        """Return a length of time in seconds."""
        return Time(seconds * 1_000)

    @staticmethod
    def minutes(minutes: int) -> Time:
        """Return a length of time in minutes."""
        return Time(minutes * 60_000)

    @staticmethod
    def hours(hours: int) -> Time:
        """Return a length of time in hours."""
        return Time(hours * 3_600_000)

    @staticmethod
    def days(days: int) -> Time:
        """Return a length of time in days of 24 hours."""
        return Time(days * 86_400_000)

    def to_milliseconds(self) -> int:
        """Return the length in milliseconds."""
        return self._millis

    def __str__(self) -> str:
        """Return it as `3000 ms`."""
        return f"{self._millis} ms"


@dataclass(frozen=True, order=True)
class Duration:
    """A length of time."""

    _millis: int

    @staticmethod
    def of_millis(millis: int) -> Duration:
        """Return a length of time in milliseconds."""
        return Duration(millis)

    @staticmethod
    def of_seconds(seconds: int) -> Duration:
        """Return a length of time in seconds."""
        return Duration(seconds * 1_000)

    @staticmethod
    def of_minutes(minutes: int) -> Duration:
        """Return a length of time in minutes."""
        return Duration(minutes * 60_000)

    @staticmethod
    def of_hours(hours: int) -> Duration:
        """Return a length of time in hours."""
        return Duration(hours * 3_600_000)

    @staticmethod
    def of_days(days: int) -> Duration:
        """Return a length of time in days of 24 hours."""
        return Duration(days * 86_400_000)

    @staticmethod
    def of_nanos(nanos: int) -> Duration:
        """Return a length of time in nanoseconds, rounded down to milliseconds."""
        return Duration(nanos // 1_000_000)

    def to_millis(self) -> int:
        """Return the length in milliseconds."""
        return self._millis

    def __str__(self) -> str:
        """Return Java's form, as `PT1H30M` or `PT0.5S`."""
        sign = "-" if self._millis < 0 else ""
        seconds, millis = divmod(abs(self._millis), 1_000)
        minutes, seconds = divmod(seconds, 60)
        hours, minutes = divmod(minutes, 60)
        fraction = f".{millis:03d}".rstrip("0") if millis else ""
        parts = [(f"{hours}", "H"), (f"{minutes}", "M"), (f"{seconds}{fraction}", "S")]
        return "PT" + ("".join(f"{sign}{number}{unit}" for number, unit in parts if number != "0") or "0S")


@dataclass(frozen=True, order=True)
class Instant:
    """A point in time: seconds since 1970-01-01T00:00:00Z and nanoseconds (0..999,999,999) after them."""

    seconds: int
    nanos: int = 0

    def __post_init__(self) -> None:
        """Reject nanoseconds out of range."""
        if not 0 <= self.nanos < 1_000_000_000:
            message = f"The nanoseconds of an instant are between 0 and 999999999, not {self.nanos}."
            raise ValueError(message)

    @staticmethod
    def of_epoch_milli(epoch_milli: int) -> Instant:
        """Return the instant at a number of milliseconds after the epoch."""
        seconds, millis = divmod(epoch_milli, 1_000)
        return Instant(seconds, millis * 1_000_000)

    def __repr__(self) -> str:
        """Return PyFlink's form: seconds and nanoseconds."""
        return f"Instant<{self.seconds}, {self.nanos}>"

    def to_epoch_milli(self) -> int:
        """Return the milliseconds since the epoch, rounded down."""
        return self.seconds * 1_000 + self.nanos // 1_000_000
