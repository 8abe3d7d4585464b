"""The syntax of locations: a folder or a URL in a request, a command, an option or a snapshot.

No filesystem is asked here, and none is loaded: commands and options are checked before anything else is known.
"""

from __future__ import annotations

import re
import unicodedata

from pystate.common.errors import PystateError

_CHAINED = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(::|://.*::)", re.DOTALL)
_ADDRESS = re.compile(r"\[[0-9A-Fa-f:.%]*\]")
_WEB = re.compile(r"(https?|ftps?):/", re.IGNORECASE)
"""What nobody writes state to, and would only make us ask a server of somebody's choice."""
_BREAKS = ("Cc", "Zl", "Zp")


def check_place(text: str, error: type[PystateError], where: str | None = None) -> None:
    """Reject a location that would be displayed differently than it is, or that chains several filesystems.

    Args:
        text: A path or a URL.
        error: What to raise.
        where: The place, for the error.

    Raises:
        PystateError: It has control characters, is a chain of URLs, or a URL of the web; of the kind that was given.
    """
    fault = fault_of_place(text)
    if fault is not None:
        hint = "a place is a path, file:/path, or a URL such as s3://bucket/path"
        raise error(fault, where=where, hint=hint)


def fault_of_place(text: str) -> str | None:
    """Return what is wrong with a location, in a sentence; None if nothing is."""
    odd = control_character(text)
    if odd is not None:
        return f"{text!r} has the control character {odd!r} in it, which the name of a place can't have."
    if _CHAINED.match(_ADDRESS.sub("", text)):
        return f"{text!r} chains URLs with '::', which pystate doesn't follow."
    web = _WEB.match(text)
    if web is not None:
        return f"There is no filesystem for {text!r}: {web[1].lower()} is no store that state could lie in."
    return None


def control_character(text: str) -> str | None:
    """Return the first line break or control character of a text; None if there is none."""
    return next((character for character in text if unicodedata.category(character) in _BREAKS), None)
