from __future__ import annotations

import ctypes
import os
import signal
import socket
import threading
from pathlib import Path

import pytest

from pystate.common.errors import PystateError
from pystate.common.files.home import PystateHome, read_json, write_json
from pystate.common.files.job_manager_entry import read_job_manager
from pystate.ops.jobmanager import server
from pystate.ops.jobmanager.server import AlreadyRunningError, bind, job_manager
from pystate.runtime.job_folder.job_record import JobRecord
from tests.ops.jobmanager.harness import ManagerProcess, eventually
from tests.waiting import LONGEST_S

_DRIVER_WAITED_FOR_S = 45
"""A driver that hangs was waited for by a minute."""


def test_the_next_free_port_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with bind("127.0.0.1", port) as listener:
            assert listener.getsockname()[1] > port


def test_port_0_is_any_free_port():
    with bind("127.0.0.1", 0) as listener:
        assert listener.getsockname()[1] > 0


def test_an_address_of_another_machine_is_refused():
    with pytest.raises(PystateError, match="can't be listened on"), bind("192.0.2.1", 0):
        pass


def test_all_ports_taken_is_an_error_with_a_hint(monkeypatch):
    monkeypatch.setattr(server, "_PORTS_TRIED", 1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PystateError, match=f"All ports from {port} to {port} are taken"), bind("127.0.0.1", port):
            pass


def test_a_home_has_one_job_manager(tmp_path):
    home = PystateHome(tmp_path)
    with job_manager(home, "127.0.0.1", 0):
        first = read_json(home.jobmanager)
        with (
            pytest.raises(AlreadyRunningError, match=f"process {first['pid']}"),
            job_manager(home, "127.0.0.1", 0),
        ):
            pass
        assert read_json(home.jobmanager) == first
    assert not home.jobmanager.exists()


def test_the_next_job_manager_keeps_the_token_and_has_another_instance(tmp_path):
    home = PystateHome(tmp_path / "deep" / "home")
    with job_manager(home, "127.0.0.1", 0):
        token, instance = home.token.read_text(), read_json(home.jobmanager)["instance"]
    with job_manager(home, "127.0.0.1", 0):
        assert home.token.read_text() == token
        assert read_json(home.jobmanager)["instance"] != instance
    assert home.root.stat().st_mode & 0o777 == 0o700


def test_one_that_is_about_to_end_is_waited_for_and_a_stale_address_is_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "_LOCK_WAIT_SECONDS", 0.2)
    home = PystateHome(tmp_path)
    with job_manager(home, "127.0.0.1", 0):
        home.jobmanager.unlink()
        with pytest.raises(AlreadyRunningError), job_manager(home, "127.0.0.1", 0):
            pass
    write_json(home.jobmanager, {"pid": 1})
    monkeypatch.setattr(server, "create_app", lambda *_args, **_kwargs: pytest.fail(str(home.jobmanager.exists())))
    with pytest.raises(pytest.fail.Exception, match="False"), job_manager(home, "127.0.0.1", 0):
        pass


def test_a_damaged_address_is_written_anew(tmp_path):
    home = PystateHome(tmp_path)
    with job_manager(home, "127.0.0.1", 0):
        entry = home.jobmanager.read_bytes()
        home.jobmanager.write_bytes(b"{")
        eventually(lambda: home.jobmanager.read_bytes() == entry)
    assert not home.jobmanager.exists()


def test_a_job_manager_starts_over_a_damaged_address(tmp_path):
    home = PystateHome(tmp_path)
    home.jobmanager.write_bytes(b"\0\0")
    with job_manager(home, "127.0.0.1", 0):
        assert read_job_manager(home) is not None


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir])
def test_a_pipe_or_a_folder_as_the_address_is_a_damaged_one(tmp_path, monkeypatch, make):
    monkeypatch.setattr(server, "_LOCK_WAIT_SECONDS", 0.2)
    home = PystateHome(tmp_path)
    make(home.jobmanager)
    with job_manager(home, "127.0.0.1", 0):
        entry = read_job_manager(home)
        assert entry is not None
        home.jobmanager.unlink()
        make(home.jobmanager)
        with pytest.raises(AlreadyRunningError) as caught, job_manager(home, "127.0.0.1", 0):
            pass
        assert "None" not in caught.value.message
        eventually(lambda: home.jobmanager.is_file() and read_job_manager(home) == entry)


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir])
@pytest.mark.parametrize("name", ["jobmanager.lock", "token"])
def test_a_job_manager_says_why_it_does_not_start_over_a_pipe(tmp_path, name, make):
    make(tmp_path / name)
    (tmp_path / name).chmod(0o600)
    with pytest.raises(PystateError) as caught, job_manager(PystateHome(tmp_path), "127.0.0.1", 0):
        pass
    assert (caught.value.where, "mv" in str(caught.value.hint)) == (str(tmp_path / name), True)


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir])
def test_a_pipe_as_a_job_s_record_hangs_no_job_manager(tmp_path, make):
    home = PystateHome(tmp_path)
    job = home.job("a" * 32)
    job.path.mkdir(parents=True)
    make(job.path / "record.json")
    make(job.path / "submission.json")
    with job_manager(home, "127.0.0.1", 0):
        record = JobRecord.read(job)
    assert record is not None
    assert "The job record is damaged" in record.verdict.failure.message


def test_its_end_waits_for_no_driver_that_hangs(tmp_path):
    manager = ManagerProcess(tmp_path / "home").start()
    job = manager.submit()
    manager.wait_for(job, "RUNNING")
    driver = read_json(manager.home.job(job).driver)["pid"]
    os.kill(driver, signal.SIGSTOP)
    answers = []
    asking = threading.Thread(target=lambda: answers.append(manager.request("GET", f"/jobs/{job}/checkpoints")))
    asking.start()
    try:
        eventually(lambda: len(_sockets_to(manager.process.pid, read_json(manager.home.job(job).driver)["port"])) > 0)
        manager.process.terminate()
        manager.process.wait(_DRIVER_WAITED_FOR_S)
        asking.join()
        assert [status for status, _ in answers] == [503]
        assert "Traceback" not in manager.home.jobmanager_log.read_text()
    finally:
        os.kill(driver, signal.SIGCONT)
        manager.stop()


def _sockets_to(pid, port):
    """Return the connections of a process to a port of this machine."""
    inodes = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            inodes.add(os.readlink(link))
        except OSError:
            continue
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [row for row in rows if int(row[2].split(":")[1], 16) == port and f"socket:[{row[9]}]" in inodes]


def test_a_signal_that_another_thread_takes_ends_it(tmp_path):
    """As one does that comes while the main thread is stopped."""
    manager = ManagerProcess(tmp_path / "home").start()
    others = [int(name) for name in os.listdir(f"/proc/{manager.process.pid}/task") if int(name) != manager.process.pid]
    assert ctypes.CDLL(None).tgkill(manager.process.pid, others[0], signal.SIGTERM) == 0
    manager.process.wait(LONGEST_S)
    manager.stop()
