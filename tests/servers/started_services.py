"""Waits until a service that a test has started answers."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import requests

from tests.waiting import LONGEST_S


def wait_until_it_answers(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a service is there.

    Args:
        url: What it answers once it is there.
        process: Its process, which must not end.
        log: What it writes, for the message.
    """
    deadline = time.monotonic() + LONGEST_S
    while True:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        try:
            if requests.get(url, timeout=5).ok:
                return
        except (requests.ConnectionError, requests.Timeout):  # a busy machine is slow
            pass
        time.sleep(0.1)
