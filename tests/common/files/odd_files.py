"""Fixtures of files that can't be opened as expected: pipes, folders and devices in their place, a full disk."""

from __future__ import annotations

import errno
import faulthandler
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

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


@pytest.fixture
def no_new_files(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Makes a disk that takes no new file, from its call on; files that are there can be written."""
    opened = os.open

    def refused(path: Any, flags: int, *arguments: Any, **named: Any) -> int:
        if flags & os.O_EXCL:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return opened(path, flags, *arguments, **named)

    return lambda: monkeypatch.setattr(os, "open", refused)
