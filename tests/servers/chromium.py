"""A headless Chromium for tests of pages: the operating system's own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.waiting import LONGEST_S

# a closed network refuses the browser's own connections, many at a time
_QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def chromium() -> str:
    """Return the program; skip the test where there is none."""
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("there is no Chromium here: on Debian and Ubuntu, apt-get install chromium")
    return found


@contextmanager
def browser() -> Iterator[Browser]:
    """Yield a browser; skip the test where there is none."""
    program = chromium()
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=list(_QUIET), timeout=1000 * LONGEST_S)
        try:
            yield started
        finally:
            started.close()
