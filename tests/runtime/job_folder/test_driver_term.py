from __future__ import annotations

from pathlib import Path

import pytest

from pystate.common.errors import DriverReplacedError, SnapshotError
from pystate.common.files.job_files import FencingFile
from pystate.runtime.job_folder import driver_term
from pystate.runtime.job_folder.driver_term import DriverTerm, begin_term


class Replica:
    """What other machines see, which may be out of reach for some requests."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.fails = 0

    def write(self, name: str, data: bytes) -> None:
        self.files[name] = data

    def read(self, name: str) -> bytes:
        if self.fails:
            self.fails -= 1
            message = "SlowDown"
            raise OSError(message)
        if name not in self.files:
            raise FileNotFoundError(name)
        return self.files[name]

    def delete(self, name: str) -> None:
        self.files.pop(name, None)


@pytest.fixture
def replica() -> Replica:
    return Replica()


@pytest.fixture
def file(tmp_path: Path, replica: Replica) -> FencingFile:
    return FencingFile(tmp_path / "term.json", "term.json", replica)


def test_a_term_ends_where_others_see_another_one_whatever_stands_here(file, replica, tmp_path):
    term = DriverTerm(file, 1)
    term.begin()
    term.check()
    here = (tmp_path / "term.json").read_bytes()
    begin_term(FencingFile(tmp_path / "elsewhere.json", "term.json", replica), 2)

    assert (tmp_path / "term.json").read_bytes() == here
    with pytest.raises(DriverReplacedError):
        term.check()
    with pytest.raises(DriverReplacedError, match="The job manager of term 1 is not in charge"):
        DriverTerm(file, 1).begin()


def test_where_nobody_can_tell_nothing_may_be_done(file, replica):
    term = DriverTerm(file, 1)
    term.begin()
    replica.fails = 1

    with pytest.raises(SnapshotError, match="It can't be told whether another driver has taken the job over: SlowDown"):
        term.check()
    term.check()


def test_the_end_of_an_attempt_waits_until_it_can_be_told(file, replica, monkeypatch):
    monkeypatch.setattr(driver_term, "_RETRY_SECONDS", 0)
    term, said = DriverTerm(file, 1), []
    term.begin()
    replica.fails = 3

    term.check_when_told(said.append)

    assert replica.fails == 0
    assert len(said) == 1
    assert "The driver waits until it can." in said[0]
    replica.fails = 2
    replica.files["term.json"] = b'{"driver": "of another machine", "pid": 1}'
    with pytest.raises(DriverReplacedError):
        term.check_when_told(said.append)
