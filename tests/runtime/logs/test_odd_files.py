"""What stands in the place of a log, and is no file, holds up neither who prints nor who reads."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pystate.common.files.regular_files import NotRegularError
from pystate.runtime.logs.log_reader import log_extent, read_log
from pystate.runtime.logs.log_writer import BoundedLogs, LogBounds
from pystate.runtime.logs.pieces import is_written, lock_of, piece_of, pieces
from pystate.runtime.logs.pump import pump

Odd = tuple[str, Callable[[Path], None]]
BOUNDS = LogBounds(max_bytes=1000, old_pieces=2)


@pytest.fixture(autouse=True)
def _no_hang(no_hang: None) -> None:
    """None of these may hang."""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "job.log"


def test_what_is_printed_meanwhile_is_dropped_and_told_of(log: Path, not_regular: Odd) -> None:
    _, make = not_regular
    logs = BoundedLogs([log], BOUNDS)
    make(log)
    logs.append(log, b"x" * 250)
    log.rename(log.with_name("aside"))
    logs.append(log, b"after\n")
    assert log.read_bytes() == b"\n[pystate: 250 bytes of output are lost here]\nafter\n"


def test_who_reads_is_told_what_it_is(log: Path, not_regular: Odd) -> None:
    words, make = not_regular
    make(log)
    with pytest.raises(NotRegularError, match=f"job.log is {words}, not a regular file"):
        read_log(log, 0, 10, ended=False)
    assert log_extent(log) == (0, 0)


def test_an_older_piece_is_a_file(log: Path, not_regular: Odd) -> None:
    _, make = not_regular
    make(piece_of(log, 0))
    piece_of(log, 5).write_bytes(b"56789")
    log.write_bytes(b"ab")
    assert [offset for offset, _ in pieces(log)] == [5]
    assert log_extent(log) == (5, 12)
    assert read_log(log, 5, 5, ended=True) == (b"56789", False)
    assert read_log(log, 10, 5, ended=True) == (b"ab", True)


def test_a_lock_that_is_none_is_held_by_nobody(log: Path, not_regular: Odd) -> None:
    _, make = not_regular
    make(lock_of(log))
    assert not is_written(log)

    reading, writing = os.pipe()
    os.write(writing, b"printed")
    os.close(writing)
    pump({reading: log}, BOUNDS)
    assert log.read_bytes() == b"printed"


def test_the_process_that_writes_logs_is_small() -> None:
    program = (
        "import sys; import pystate.runtime.logs.pump; print(*(name for name in sys.modules if name.startswith('pystate.')))"
    )
    command = [sys.executable, "-S", "-c", program]
    root = Path(__file__).parents[3] / "runtime"
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    assert sorted(done.stdout.split()) == [
        "pystate.common",
        "pystate.common.files",
        "pystate.common.files.regular_files",
        "pystate.runtime",
        "pystate.runtime.logs",
        "pystate.runtime.logs.log_writer",
        "pystate.runtime.logs.pieces",
        "pystate.runtime.logs.pump",
    ]
