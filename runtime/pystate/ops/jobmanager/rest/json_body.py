"""The JSON of requests: read only where it has the shape of a body, whatever its size."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from pystate.common.errors import UsageError

MAX_DEPTH = 16
"""Of objects and lists in each other; no route needs more than two."""

# a text without an end reaches to the end, so that nothing is looked at twice
_TEXT_OR_BRACKET = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[\[{]|[\]}]', re.DOTALL)


def parse_body(data: bytes) -> dict[str, Any]:
    """Return the object that a body holds; an empty one where there is no body.

    Raises:
        UsageError: It is no JSON, no object, or too deep.
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
