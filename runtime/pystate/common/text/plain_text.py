"""Checks that text can be encoded as UTF-8, since Python's strings may have lone surrogates."""

from __future__ import annotations

from pystate.common.errors import PystateError


def check_text(text: str, what: str, error: type[PystateError], where: str | None = None) -> None:
    """Reject a name with lone surrogates, which would make every snapshot fail.

    Args:
        text: The name.
        what: What it is: "the name of a state".
        error: What to raise.
        where: The place, for the error.

    Raises:
        PystateError: It has some; of the kind that was given.
    """
    lone = lone_surrogate(text)
    if lone is not None:
        message = (
            f"{what[0].upper()}{what[1:]} can't be {text!r}: {lone!r} is half of a surrogate pair, which no file can hold."
        )
        raise error(message, where=where, hint="such texts come from bytes that are no UTF-8; choose another name")


def lone_surrogate(text: str) -> str | None:
    """Return the first character of a text that UTF-8 can't encode; None if there is none."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return text[error.start]
    return None
