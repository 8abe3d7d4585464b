"""Texts of the command line about epochs, times and names."""

from __future__ import annotations

from pystate.common.text.figures import UNKNOWN, format_millis, local_time


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
