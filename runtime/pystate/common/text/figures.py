"""Numbers, sizes and durations for people."""

from __future__ import annotations

_SIZE_UNITS = ("B", "KB", "MB", "GB", "TB")
UNKNOWN = "-"


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
