"""Human-readable formats of numbers, sizes, durations and times."""

from __future__ import annotations

from datetime import datetime

from pystate.common.text.figures import UNKNOWN as UNKNOWN
from pystate.common.text.figures import format_count as format_count
from pystate.common.text.figures import format_millis as format_millis
from pystate.common.text.figures import format_size as format_size

_MIN_WATERMARK, _MAX_WATERMARK = -(1 << 63), (1 << 63) - 1


def known_epoch(number: int | None) -> int | None:
    """Return the number of an epoch; None for -1, when no epoch has ended yet."""
    return None if number is None or number < 0 else number


def waiting_text(epoch: int | None, since: int | None, now: int, running: int | None = None) -> str | None:
    """Return the message that a checkpoint's barrier waits for the end of an epoch.

    Args:
        epoch: The epoch, `waits_for_epoch` in REST.
        since: When the wait began, ms since 1970.
        now: Milliseconds since 1970.
        running: How long the epoch has run, ms.

    Returns:
        `waits for the end of epoch 2, since 9.0 s`, or `, which has run for 9.0 s` for a savepoint's progress; None if it
        doesn't wait.
    """
    if epoch is None:
        return None
    if running is not None:
        return f"waits for the end of epoch {epoch}, which has run for {format_millis(running)}"
    return f"waits for the end of epoch {epoch}" + ("" if since is None else f", since {format_millis(max(0, now - since))}")


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
    behind = now_millis - watermark
    distance = f"{format_millis(abs(behind))} {'behind' if behind >= 0 else 'ahead'}"
    try:
        moment = local_time(watermark)
    except (OverflowError, OSError, ValueError):  # not a year of the calendar
        return f"{watermark} ms, {distance}"
    pattern = "%H:%M:%S" if moment.date() == local_time(now_millis).date() else "%Y-%m-%d %H:%M:%S"
    return f"{moment.strftime(pattern)}, {distance}"


def format_flink_time(millis: int) -> str:
    """Return an instant as the flink client's list writes it."""
    return local_time(millis).strftime("%d.%m.%Y %H:%M:%S")


def format_iso(millis: int | None) -> str:
    """Return an instant for programs, in the local time zone with its offset."""
    if millis is None or millis < 0:
        return UNKNOWN
    return local_time(millis).isoformat(timespec="milliseconds")


def printable(text: str) -> str:
    """Return a name on one line, without control characters."""
    return "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))
