from __future__ import annotations

import errno
import os

import pytest

from pystate.common.configuration import Configuration
from pystate.jobmanager.job_store import EndedJob, JobStoreTerms
from pystate.jobmanager.log_rotation import LogGoneError, read_rotated, rotate


def test_the_defaults_are_flinks():
    assert JobStoreTerms.of(Configuration()) == JobStoreTerms(3_600_000, 2**31 - 1) == JobStoreTerms()
    settings = Configuration({"jobstore.expiration-time": "60", "jobstore.max-capacity": "2"})
    assert JobStoreTerms.of(settings) == JobStoreTerms(60_000, 2)


def test_a_job_expires_with_its_time_and_not_before():
    terms = JobStoreTerms(expiration_ms=100)

    assert terms.expired([]) == []
    assert terms.expired([EndedJob("a", 0, seen_for_ms=99), EndedJob("b", 1, seen_for_ms=98)]) == []
    assert terms.expired([EndedJob("a", 0, seen_for_ms=100), EndedJob("b", 1, seen_for_ms=99)]) == ["a"]


def test_what_ended_first_goes_first_where_there_is_no_room():
    terms = JobStoreTerms(expiration_ms=10_000, max_capacity=2)

    def seen_at_once(**ends: int) -> list[EndedJob]:
        return [EndedJob(job_id, end_time, seen_for_ms=7) for job_id, end_time in ends.items()]

    assert terms.expired(seen_at_once(a=5, b=1, c=3, d=9)) == ["c", "b"]
    assert JobStoreTerms(10_000, 0).expired(seen_at_once(a=5)) == ["a"]


def test_what_was_seen_to_end_first_goes_first_whatever_the_clock_said():
    ended = [EndedJob("later", 1, seen_for_ms=5), EndedJob("earlier", 7_200_000, seen_for_ms=6)]

    assert JobStoreTerms(10_000, 1).expired(ended) == ["earlier"]


def test_half_a_piece_is_not_left_of_a_log(tmp_path, monkeypatch):
    log = tmp_path / "job.log"
    log.write_bytes(b"0123456789")

    def full(_source, copy):
        copy.write(b"0123")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("pystate.jobmanager.log_rotation.shutil.copyfileobj", full)
    with pytest.raises(OSError, match="No space"):
        rotate(log, 2, max_bytes=10)

    assert os.listdir(tmp_path) == ["job.log"]
    assert read_rotated(log, 0, 100, ended=True) == (b"0123456789", True)


def test_a_log_is_put_aside_and_its_writers_go_on_at_the_beginning(tmp_path):
    log = tmp_path / "job.log"
    with log.open("ab", buffering=0) as writer:
        writer.write(b"0123456789")
        assert not rotate(log, 2, max_bytes=11)
        assert rotate(log, 2, max_bytes=10)
        writer.write(b"abc")

    assert log.read_bytes() == b"abc"
    assert (tmp_path / "job.log.0000000000000000").read_bytes() == b"0123456789"
    assert (tmp_path / "job.log.0000000000000000").stat().st_mode & 0o777 == 0o600
    assert not rotate(tmp_path / "none", 2)


def followed(log, offset: int, limit: int = 4) -> bytes:
    """Read as a follower does, until nothing is left."""
    data = b""
    while True:
        piece, ended = read_rotated(log, offset + len(data), limit, ended=True)
        data += piece
        if ended:
            return data
        assert piece


def test_a_follower_reads_on_over_the_pieces(tmp_path):
    log = tmp_path / "job.log"
    for piece in (b"0123456789", b"abcdefghij", b"KLMNOPQRST"):
        with log.open("ab") as writer:
            writer.write(piece)
        rotate(log, 2, max_bytes=10)
    with log.open("ab") as writer:
        writer.write(b"xyz")

    assert len(os.listdir(tmp_path)) == 3, "the oldest of three pieces is deleted"
    assert followed(log, 10) == b"abcdefghijKLMNOPQRSTxyz"
    assert followed(log, 29) == b"Txyz"
    assert read_rotated(log, 33, 10, ended=False) == (b"", False)
    with pytest.raises(LogGoneError, match="begins at byte 10"):
        read_rotated(log, 9, 10, ended=False)


def test_a_log_that_was_never_written_is_empty(tmp_path):
    assert read_rotated(tmp_path / "job.log", 0, 10, ended=False) == (b"", False)
    assert read_rotated(tmp_path / "job.log", 0, 10, ended=True) == (b"", True)
