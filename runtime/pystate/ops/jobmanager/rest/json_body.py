"""Parses the JSON of requests, after a cheap check of its shape, for any size."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from pystate.common.errors import UsageError

MAX_DEPTH = 16
"""The most levels of nested objects and lists; no route needs more than two."""

# an unterminated string reaches to the end, so that nothing is scanned twice
_TEXT_OR_BRACKET = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[\[{]|[\]}]', re.DOTALL)


def parse_body(data: bytes) -> dict[str, Any]:
    """Return the object in a body; an empty one without a body.

    Raises:
        UsageError: It isn't JSON, isn't an object, or is nested too deeply.
    """
    if not data.strip():
        return {}
    if _depth(data) > MAX_DEPTH:
        message = f"The body of the request has more than {MAX_DEPTH} levels of objects and lists."
        raise UsageError(message)
    try:
        body = json.loads(data.decode("utf-8-sig"), parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        message = f"The body of the request is not JSON: {error}."
        raise UsageError(message) from error
    if not isinstance(body, dict):
        message = "The body of the request must be a JSON object."
        raise UsageError(message)
    return body


def _depth(data: bytes) -> int:
    depth = deepest = 0
    for found in _TEXT_OR_BRACKET.finditer(data):
        token = data[found.start() : found.start() + 1]
        if token in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif token in b"]}":
            depth -= 1
    return deepest


def _no_number(word: str) -> NoReturn:
    message = f"{word} is no number"
    raise ValueError(message)
