from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.runtime.logs.log_reader import LogGoneError, log_extent, read_log
from pystate.runtime.logs.log_writer import BoundedLogs, LogBounds
from pystate.runtime.logs.pieces import pieces
from pystate.runtime.logs.pipes import log_bounds
from tests.waiting import LONGEST_S


def on_disk(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def followed(log: Path, offset: int, limit: int = 4) -> bytes:
    """Read as a follower does, until nothing is left."""
    data = b""
    while True:
        piece, ended = read_log(log, offset + len(data), limit, ended=True)
        data += piece
        if ended:
            return data
        assert piece


def test_the_default_is_what_the_documents_say():
    bounds = log_bounds(Configuration())
    assert bounds == LogBounds(max_bytes=1100 << 20, old_pieces=10)
    assert bounds.piece_bytes == 100 << 20
    assert log_bounds(Configuration({"pystate.log.max-size": "5 mb", "env.log.max": "4"})).piece_bytes == 1 << 20


def test_a_piece_is_put_aside_and_a_follower_reads_on_over_it(tmp_path):
    log = tmp_path / "job.log"
    logs = BoundedLogs([log], LogBounds(max_bytes=30, old_pieces=2))
    for text in (b"0123456789abcdefgh", b"ijKLMNOPQRST", b"xyz"):
        logs.append(log, text)

    assert [path.name for _, path in pieces(log)] == ["job.log.0000000000000010", "job.log.0000000000000020"]
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
    assert log_extent(log) == (10, 33)
    assert followed(log, 10) == b"abcdefghijKLMNOPQRSTxyz"
    assert followed(log, 29) == b"Txyz"
    assert read_log(log, 33, 10, ended=False) == (b"", False)
    with pytest.raises(LogGoneError, match="begins at byte 10"):
        read_log(log, 9, 10, ended=False)


def test_a_log_that_was_never_written_is_empty(tmp_path):
    log = tmp_path / "job.log"
    assert read_log(log, 0, 10, ended=False) == (b"", False)
    assert read_log(log, 0, 10, ended=True) == (b"", True)
    assert log_extent(log) == (0, 0)


@pytest.mark.parametrize("old_pieces", [1, 2, 10])
def test_two_logs_together_never_take_more_than_the_bound(tmp_path, old_pieces):
    first, second = tmp_path / "stdout", tmp_path / "job.log"
    bounds = LogBounds(max_bytes=1000, old_pieces=old_pieces)
    logs = BoundedLogs([first, second], bounds)
    written = {first: 0, second: 0}
    for step in range(400):
        log = first if step % 7 else second
        logs.append(log, b"%06d\n" % step * (step % 40))
        written[log] += 7 * (step % 40)
        assert on_disk(tmp_path) <= 1000
    for log, total in written.items():
        assert log_extent(log)[1] == total, "no byte is lost but by age"
        assert len(pieces(log)) <= old_pieces
    assert followed(first, log_extent(first)[0]).endswith(b"000398\n")


def test_the_offset_is_known_when_all_older_pieces_are_deleted(tmp_path):
    first, second = tmp_path / "stdout", tmp_path / "job.log"
    logs = BoundedLogs([first, second], LogBounds(max_bytes=20, old_pieces=1))
    logs.append(first, b"0123456789abcde")
    logs.append(second, b"0123456789")

    assert log_extent(first) == (10, 15)
    assert read_log(first, 10, 100, ended=True) == (b"abcde", True)
    assert on_disk(tmp_path) == 15


def test_a_log_that_was_larger_than_the_bound_is_cut_at_the_next_line(tmp_path):
    log = tmp_path / "job.log"
    log.write_bytes(b"x" * 5000)
    BoundedLogs([log], LogBounds(max_bytes=100, old_pieces=1)).append(log, b"new\n")
    assert on_disk(tmp_path) == 4
    assert log_extent(log) == (5000, 5004)


def test_what_a_full_disk_has_no_room_for_is_dropped_and_told_of(tmp_path, monkeypatch):
    log = tmp_path / "job.log"
    logs = BoundedLogs([log], LogBounds(max_bytes=1000, old_pieces=1))
    logs.append(log, b"before\n")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        logs.append(log, b"x" * 1000)
        logs.append(log, b"x" * 234)
    logs.append(log, b"after\n")
    assert log.read_bytes() == b"before\n\n[pystate: 1,234 bytes of output are lost here]\nafter\n"


def test_a_follower_of_a_log_that_is_cut_meanwhile_never_gets_other_bytes(tmp_path):
    log = tmp_path / "job.log"
    logs = BoundedLogs([log], LogBounds(max_bytes=4000, old_pieces=3))
    lines = 20_000
    ready = threading.Event()

    def write() -> None:
        for number in range(lines):
            logs.append(log, b"%09d\n" % number)
            ready.set()

    writer = threading.Thread(target=write)
    writer.start()
    assert ready.wait(LONGEST_S)
    offset, seen = 0, 0
    while offset < lines * 10:
        try:
            data, _ = read_log(log, offset - offset % 10, 1000, ended=False)
        except LogGoneError:
            offset = log_extent(log)[0]
            continue
        whole = data[: len(data) // 10 * 10]
        for position in range(0, len(whole), 10):
            assert int(whole[position : position + 10]) * 10 == offset - offset % 10 + position
            seen += 1
        offset += len(whole)
    writer.join()
    assert seen
