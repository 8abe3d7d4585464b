"""Numbers, sizes, durations and times for people."""

from __future__ import annotations

from datetime import datetime

_SIZE_UNITS = ("B", "KB", "MB", "GB", "TB")
UNKNOWN = "-"
_MIN_WATERMARK, _MAX_WATERMARK = -(1 << 63), (1 << 63) - 1


def format_size(size: int | None) -> str:
    """Return a number of bytes in the unit that fits, powers of 1024: `812 B`, `9.11 KB`."""
    if size is None or size < 0:
        return UNKNOWN
    value = float(size)
    for unit in _SIZE_UNITS:
        if value < 1024 or unit == _SIZE_UNITS[-1]:
            break
        value /= 1024
    if unit == "B":
        return f"{size} B"
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:.{digits}f} {unit}"


def format_count(count: int | None) -> str:
    """Return a count with thousands separators: `1,234,567`."""
    return UNKNOWN if count is None or count < 0 else f"{count:,}"


def format_millis(millis: int | None) -> str:
    """Return a duration in the two units that fit: `110 ms`, `2.3 s`, `4 m 05 s`, `1 h 02 m`, `3 d 04 h`."""
    if millis is None or millis < 0:
        return UNKNOWN
    if millis < 1000:
        return f"{millis} ms"
    if millis < 60_000:
        return f"{millis // 100 / 10:.1f} s"
    seconds = millis // 1000
    for unit, length, lower_unit, lower_length in (("d", 86_400, "h", 3_600), ("h", 3_600, "m", 60), ("m", 60, "s", 1)):
        if seconds >= length:
            return f"{seconds // length} {unit} {seconds % length // lower_length:02d} {lower_unit}"
    raise AssertionError(seconds)


def local_time(millis: int) -> datetime:
    """Return an instant in the local time zone."""
    return datetime.fromtimestamp(millis / 1000).astimezone()


def format_moment(millis: int | None, now_millis: int) -> str:
    """Return an instant for a table: only the time if it was today, else with the date."""
    if millis is None or millis < 0:
        return UNKNOWN
    moment = local_time(millis)
    if moment.date() == local_time(now_millis).date():
        return moment.strftime("%H:%M:%S")
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def format_watermark(watermark: int | None, now_millis: int) -> str:
    """Return event time: `12:00:05, 3.2 s behind`, with its date unless that is today.

    Args:
        watermark: Milliseconds since 1970; None if unknown.
        now_millis: The processing time, ms since 1970.

    Returns:
        The time with its lag or lead relative to processing time; `none yet` and `at its end` for Flink's minimum and
        maximum.
    """
    if watermark is None:
        return UNKNOWN
    if watermark == _MIN_WATERMARK:
        return "none yet"
    if watermark == _MAX_WATERMARK:
        return "at its end"
    lag = now_millis - watermark
    distance = f"{format_millis(abs(lag))} {'behind' if lag >= 0 else 'ahead'}"
    try:
        moment = local_time(watermark)
    except (OverflowError, OSError, ValueError):  # not a year of the calendar
        return f"{watermark} ms, {distance}"
    pattern = "%H:%M:%S" if moment.date() == local_time(now_millis).date() else "%Y-%m-%d %H:%M:%S"
    return f"{moment.strftime(pattern)}, {distance}"
