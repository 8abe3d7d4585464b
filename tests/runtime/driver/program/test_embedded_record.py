"""What others see of a job that a program runs itself, when that ends before the job began."""

from __future__ import annotations

import os
import stat
import sys
import threading
from contextlib import suppress
from types import ModuleType

import pytest

from pystate.common.files.home import PystateHome
from pystate.common.job_status import JobStatus
from pystate.common.processes.processes import started_at
from pystate.core.api import executor
from pystate.core.api.executor import current_executor, register_executor
from pystate.datastream import StreamExecutionEnvironment
from pystate.runtime.driver.embedded import EmbeddedExecutor
from pystate.runtime.job_folder.job_status_file import JobStatusFile
from pystate.runtime.job_folder.small_files import DriverAddressFile, EmbeddedProgramFile


@pytest.fixture
def directory(tmp_path, monkeypatch):
    """Run a job whose session does not come up; return its folder and what was there meanwhile."""
    monkeypatch.setenv("PYSTATE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("sys.path", [*os.sys.path])

    def of(error):
        seen = {}

        class WithoutSpark(EmbeddedExecutor):
            def spark_session(self, configuration):
                directory = self.job_directory()
                seen["address"] = DriverAddressFile.read_from(directory.driver)
                seen["program"] = EmbeddedProgramFile.read_from(directory.embedded)
                seen["secret"] = stat.S_IMODE(directory.secret.stat().st_mode)
                raise error

        register_executor(WithoutSpark())
        try:
            env = StreamExecutionEnvironment.get_execution_environment()
            env.from_collection([1, 2]).print()
            with pytest.raises(type(error)):
                env.execute("counts")
        finally:
            register_executor(None)
        (path,) = (tmp_path / "home" / "jobs").iterdir()
        return PystateHome().job(path.name), seen

    return of


def test_a_job_says_which_process_runs_it_and_where_that_answers_until_it_has_ended(directory):
    found, seen = directory(RuntimeError("no Java"))
    ours = os.getpid(), started_at(os.getpid())
    assert (seen["address"].pid, seen["address"].started) == ours
    assert (seen["program"].pid, seen["program"].started) == ours
    assert seen["secret"] == 0o600
    assert not found.driver.exists()
    assert EmbeddedProgramFile.read_from(found.embedded) == seen["program"]


@pytest.mark.parametrize(
    ("error", "state", "message"),
    [
        (RuntimeError("no Java"), JobStatus.FAILED, "no Java"),
        (KeyboardInterrupt(), JobStatus.CANCELED, None),
        (SystemExit(1), JobStatus.CANCELED, None),
    ],
)
def test_a_job_that_never_began_has_ended_for_others(directory, error, state, message):
    found, _ = directory(error)
    status = JobStatusFile.read_from(found.status)
    assert status.state is state
    assert (None if status.failure is None else status.failure.message) == message


def test_threads_that_start_jobs_at_once_start_different_jobs(tmp_path, monkeypatch):
    monkeypatch.setenv("PYSTATE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("sys.path", [*os.sys.path])
    first, second = threading.Event(), threading.Event()

    class WithoutSpark(EmbeddedExecutor):
        def spark_session(self, configuration):
            self.job_directory()
            if first.is_set():
                second.set()
            first.set()
            second.wait(0.5)  # in which the other thread would come here, too
            raise RuntimeError

    register_executor(WithoutSpark())

    def start():
        env = StreamExecutionEnvironment.get_execution_environment()
        env.from_collection([1, 2]).print()
        with pytest.raises(RuntimeError):
            env.execute("counts")

    threads = [threading.Thread(target=start) for _ in range(2)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        register_executor(None)
    assert len(list((tmp_path / "home" / "jobs").iterdir())) == 2


def test_threads_have_one_executor(monkeypatch):
    both = threading.Barrier(2)

    class Slow(EmbeddedExecutor):
        def __init__(self):
            with suppress(threading.BrokenBarrierError):
                both.wait(0.5)  # in which the other thread would come here, too

    module = ModuleType("slow_executor")
    module.Slow = Slow
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(executor, "_EMBEDDED", (module.__name__, "Slow"))
    register_executor(None)
    found = []
    threads = [threading.Thread(target=lambda: found.append(current_executor())) for _ in range(2)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        register_executor(None)
    assert found[0] is found[1]
