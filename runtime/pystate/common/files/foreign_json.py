"""Reads JSON that others have written: what it is nested in must not end the reader."""

from __future__ import annotations

import json
from typing import Any


def parse_json(text: str | bytes) -> Any:
    """Return what a JSON text of others says.

    Raises:
        ValueError: It is none, or is nested deeper than can be read.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        message = "it is nested too deep"
        raise ValueError(message) from error
