"""Asks a small program that starts Spark, in a process of its own: the command line itself loads no Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

SECONDS = 180


class NoAnswerError(Exception):
    """The program gave no answer.

    Args:
        reason: The last line that it wrote to stderr; None where it took too long.
    """

    def __init__(self, reason: str | None) -> None:
        super().__init__(reason)
        self.reason = reason


def answer_of(program: str, asked: str = "") -> Any:
    """Return the JSON in the last line that a Python program prints.

    Args:
        program: Its text.
        asked: What it reads from stdin.

    Raises:
        NoAnswerError: It failed, printed nothing, or took longer than `SECONDS`.
    """
    try:
        done = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-c", program],
            input=asked,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise NoAnswerError(None) from error
    if done.returncode or not done.stdout:
        last = [line for line in done.stderr.splitlines() if line.strip()][-1:] or ["it says nothing"]
        raise NoAnswerError(last[0].strip())
    return json.loads(done.stdout.splitlines()[-1])
