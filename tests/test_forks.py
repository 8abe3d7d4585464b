"""Forks that stand for processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pystate.common.files.home import PystateHome, write_json
from tests import forks
from tests.faults.processes import needs_proc
from tests.forks import FAKE_DRIVER, ForkedPython, run_module, start_driver
from tests.ops.jobmanager.harness import PYTHON_PATH


def test_a_fork_has_its_command_environment_folder_and_files_and_an_exit_code(tmp_path: Path) -> None:
    code = (
        "import os, sys; print(sys.argv[1:], dict(os.environ), os.getcwd(), flush=True); sys.stderr.write('x'); sys.exit(7)"
    )
    with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
        forked = ForkedPython([sys.executable, "-c", code, "a", "b"], env={"A": "1"}, cwd=tmp_path, stdout=out, stderr=err)
        assert forked.wait() == 7
    assert (tmp_path / "out").read_text() == f"['a', 'b'] {{'A': '1'}} {tmp_path}\n"
    assert (tmp_path / "err").read_text() == "x"


def test_a_fork_is_waited_for_and_killed() -> None:
    forked = ForkedPython([sys.executable, "-c", "import time; time.sleep(600)"])
    assert forked.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        forked.wait(0.01)
    forked.kill()
    assert forked.wait() == -signal.SIGKILL


def test_a_module_is_run(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as out:
        assert run_module([sys.executable, "-m", "json.tool", "--nothing"], stdout=out, stderr=out).returncode == 2


def test_processes_fork_from_one_that_another_has_started(tmp_path: Path) -> None:
    lines = (
        "import os, sys",
        "from tests import forks",
        f"forks.use({forks.offer()!r})",
        "print(os.getppid(), flush=True)",
        "forks.ForkedPython([sys.executable, '-c', 'import os; print(os.getppid())']).wait()",
    )
    with (tmp_path / "out").open("wb") as out:
        assert ForkedPython([sys.executable, "-c", "\n".join(lines)], stdout=out, stderr=out).wait() == 0
    first, second = (tmp_path / "out").read_text().splitlines()
    assert first == second


@needs_proc
def test_proc_shows_a_forked_driver_as_one_that_was_started(tmp_path: Path) -> None:
    job_id = "a" * 32
    directory = PystateHome(tmp_path / "home").job(job_id)
    directory.path.mkdir(parents=True)
    directory.secret.write_bytes(b"secret")
    write_json(directory.submission, {"parallelism": 1})
    command = [sys.executable, str(FAKE_DRIVER), "--home", str(tmp_path / "home"), "--job-id", job_id]
    command += ["--", "job.py", "--listen-after", "600"]
    environment = {"PYTHONPATH": PYTHON_PATH, "PYSTATE_JOB_ID": job_id}
    with (tmp_path / "log").open("wb") as log:
        options = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, "start_new_session": True}
        driver = start_driver(command, env=environment, cwd=str(tmp_path), **options)
    try:
        shown = [Path("/proc", str(driver.pid), name).read_bytes().split(b"\0") for name in ("cmdline", "environ")]
        assert os.getsid(driver.pid) == driver.pid
    finally:
        driver.kill()
    assert isinstance(driver, ForkedPython)
    assert driver.wait() == -signal.SIGKILL
    assert [word.decode() for word in shown[0] if word] == command
    assert shown[1][0].decode() == f"PYSTATE_JOB_ID={job_id}"
