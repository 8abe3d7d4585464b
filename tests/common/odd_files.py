"""What may stand where a file is expected, and must be neither waited for nor had an effect on."""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


def _device(path: Path) -> None:
    path.symlink_to("/dev/null")


NOT_REGULAR: dict[str, Callable[[Path], None]] = {"a pipe": os.mkfifo, "a folder": Path.mkdir, "a device": _device}


@pytest.fixture(params=NOT_REGULAR)
def not_regular(request: pytest.FixtureRequest) -> tuple[str, Callable[[Path], None]]:
    """What it is called, and how it is made."""
    return request.param, NOT_REGULAR[request.param]


@pytest.fixture
def no_hang() -> Iterator[None]:
    """An open that waits for another side must fail the test, not hang it."""
    faulthandler.dump_traceback_later(60, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()
