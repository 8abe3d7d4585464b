"""The user's message of a savepoint."""

from __future__ import annotations

from pystate.common.errors import UsageError

MAX_MESSAGE_LENGTH = 500


def check_message(text: str) -> str:
    """Return a savepoint's message without spaces around it.

    Raises:
        UsageError: It is empty, too long, or would not stand on one line.
    """
    message = text.strip()
    if not message or len(message) > MAX_MESSAGE_LENGTH:
        problem = f"A savepoint's message has 1 to {MAX_MESSAGE_LENGTH} characters, not {len(message)}."
        raise UsageError(problem)
    if not message.isprintable():
        problem = "A savepoint's message is one line without control characters."
        raise UsageError(problem)
    return message
