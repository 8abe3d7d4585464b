"""Parses untrusted JSON: deep nesting must not crash the reader."""

from __future__ import annotations

import json
from typing import Any


def parse_json(text: str | bytes) -> Any:
    """Return the content of an untrusted JSON text.

    Raises:
        ValueError: It is none, or is nested deeper than can be read.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        message = "it is nested too deep"
        raise ValueError(message) from error
