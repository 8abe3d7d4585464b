"""Small files are regular files and have a bound: nothing else is opened, for that alone may hang."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pystate.common.errors import ConfigurationError
from pystate.common.files.home import PystateHome, read_json, write_json
from pystate.common.files.job_files import ReplicatedFile
from pystate.common.files.job_manager_entry import is_damaged, is_served, read_job_manager
from pystate.common.files.refused_files import refused
from pystate.common.files.regular_files import (
    MAX_SMALL_BYTES,
    NotRegularError,
    OddFileError,
    open_to_write,
    read_small_file,
)
from pystate.common.files.tokens import DamagedTokenError, read_home_token, read_token
from pystate.runtime.job_folder.content import DamagedFileError
from pystate.runtime.job_folder.job_record import JobRecord
from pystate.runtime.job_folder.small_files import DriverAddressFile
from tests.memory import least_peak
from tests.waiting import LONGEST_S


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(3 << 30)


ODD: dict[str, Callable[[Path], None]] = {"a pipe": os.mkfifo, "a folder": Path.mkdir, "more than": _sparse}


@pytest.fixture(params=ODD)
def odd(request: pytest.FixtureRequest) -> tuple[str, Callable[[Path], None]]:
    return request.param, ODD[request.param]


@pytest.fixture(autouse=True)
def _no_hang(no_hang: None) -> None:
    """None of these may hang."""


def test_only_a_regular_file_is_opened_to_be_written(
    tmp_path: Path, not_regular: tuple[str, Callable[[Path], None]]
) -> None:
    words, make = not_regular
    make(tmp_path / "file")
    with pytest.raises(NotRegularError, match=f"file is {words}, not a regular file") as caught:
        open_to_write(tmp_path / "file", os.O_WRONLY | os.O_APPEND)
    assert refused(caught.value).hint == f"mv {tmp_path}/file {tmp_path}/file.damaged; then the same again"


def test_a_file_is_made_for_its_owner_or_written_where_it_is(tmp_path: Path) -> None:
    for text in (b"one", b"two"):
        descriptor = open_to_write(tmp_path / "file", os.O_WRONLY | os.O_APPEND)
        os.write(descriptor, text)
        os.close(descriptor)
    assert (tmp_path / "file").read_bytes() == b"onetwo"
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600


def test_a_small_file_is_regular_and_has_a_bound(tmp_path: Path, odd: tuple[str, Callable[[Path], None]]) -> None:
    words, make = odd
    make(tmp_path / "file")
    with pytest.raises(OddFileError, match=words):
        read_small_file(tmp_path / "file")
    with pytest.raises(ValueError, match=words):
        read_json(ReplicatedFile(tmp_path / "file", "file", None))  # type: ignore[arg-type]


def test_what_is_small_enough_is_read_to_its_last_byte_and_a_link_leads_to_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 100)
    (tmp_path / "link").symlink_to("file")
    assert read_small_file(tmp_path / "link", 100) == b"x" * 100
    with pytest.raises(OddFileError):
        read_small_file(tmp_path / "file", 99)
    assert read_json(tmp_path / "none") is None
    assert MAX_SMALL_BYTES == 16 << 20


def test_what_a_file_holds_counts_not_the_size_it_is_said_to_have_nor_the_bound(tmp_path: Path) -> None:
    limits = Path("/proc/self/limits")
    if limits.exists():
        assert limits.stat().st_size == 0
        assert read_small_file(limits) == limits.read_bytes() != b""
        with pytest.raises(OddFileError):
            read_small_file(limits, 100)
    (tmp_path / "file").write_bytes(b"x" * 100)
    assert least_peak(lambda: read_small_file(tmp_path / "file")) < 1 << 20


def test_an_odd_file_of_a_job_is_damaged(tmp_path: Path, odd: tuple[str, Callable[[Path], None]]) -> None:
    words, make = odd
    job = PystateHome(tmp_path).job("a" * 32)
    job.path.mkdir(parents=True)
    make(job.path / "record.json")
    make(job.driver)
    with pytest.raises(DamagedFileError, match=words):
        JobRecord.read(job)
    with pytest.raises(DamagedFileError, match=words):
        DriverAddressFile.read_from(job.driver)
    aside = JobRecord.set_aside(job)
    assert aside.exists()
    assert JobRecord.read(job) is None
    write_json(job.record, {})


def test_an_odd_address_is_a_damaged_one(tmp_path: Path, odd: tuple[str, Callable[[Path], None]]) -> None:
    home = PystateHome(tmp_path)
    odd[1](home.jobmanager)
    assert is_damaged(home)
    assert read_job_manager(home) is None


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir])
def test_an_odd_lock_is_held_by_nobody(tmp_path: Path, make: Callable[[Path], None]) -> None:
    home = PystateHome(tmp_path)
    make(home.jobmanager_lock)
    assert not is_served(home)


def test_an_odd_token_is_told_with_the_next_step(tmp_path: Path, odd: tuple[str, Callable[[Path], None]]) -> None:
    words, make = odd
    token = tmp_path / "token"
    assert read_home_token(token) is None
    make(token)
    with pytest.raises(DamagedTokenError, match=words) as caught:
        read_home_token(token)
    assert str(token) in str(caught.value.hint)


@pytest.mark.parametrize("text", ["x" * 10_000, "x" * 20 + "\n" + "x" * 20])
def test_what_is_no_token_is_told_before_it_is_sent(tmp_path: Path, text: str) -> None:
    token = tmp_path / "token"
    token.write_text(text)
    token.chmod(0o600)
    with pytest.raises(DamagedTokenError, match="it is not one line of at most 4096 characters"):
        read_home_token(token)
    with pytest.raises(ConfigurationError, match="must be one word of at least 16 characters, at most 4096"):
        read_token(str(token), "pystate.rest.token-file")


def test_no_command_hangs_over_pipes_in_a_home(tmp_path: Path) -> None:
    home = PystateHome(tmp_path)
    job = home.job("a" * 32)
    job.path.mkdir(parents=True)
    for path in (home.jobmanager, job.path / "record.json", job.path / "status.json", job.driver):
        os.mkfifo(path)
    for words in (["list"], ["cluster", "status"], ["cluster", "stop"]):
        command = [sys.executable, "-m", "pystate_cli", *words]
        environment = {**os.environ, "PYSTATE_HOME": str(tmp_path)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LONGEST_S, check=False)
        assert "No job manager is running" in done.stderr + done.stdout, done
