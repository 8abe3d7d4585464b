"""What a killed driver has left in memory goes with the next one; what a living one holds stays."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from pystate.runtime.driver import scratch_folder as module
from pystate.runtime.driver.scratch_folder import ANY, scratch_folder
from pystate.runtime.job_folder.held_folders import HeldFolder, remove_folder, remove_left_folders
from tests.ops.jobmanager.harness import PYTHON_PATH
from tests.waiting import wait_until

HOLDS = """
import sys, time
from pathlib import Path
from pystate.runtime.driver import scratch_folder as module
module._MEMORY = Path(sys.argv[1])
with module.scratch_folder(sys.argv[2]) as folder:
    print(folder, flush=True)
    time.sleep(600)
"""
HOUR = 3600


@pytest.fixture(autouse=True)
def memory(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_MEMORY", tmp_path)
    return tmp_path


@pytest.fixture
def holder(tmp_path):
    """A driver of another job, in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": PYTHON_PATH}
    command = [sys.executable, "-c", HOLDS, str(tmp_path), "b" * 32]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    process.folder = tmp_path / process.stdout.readline().strip()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_folder_is_private_and_goes_in_the_end(memory):
    with scratch_folder("a" * 32) as folder:
        assert folder.parent == memory
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "0").mkdir()
    assert not folder.exists()


def test_what_a_killed_driver_of_another_job_has_left_goes_and_what_a_living_one_has_stays(memory, holder):
    later = time.time() + HOUR
    assert holder.folder.is_dir()
    assert remove_left_folders(memory, ANY, later) == []
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    assert remove_left_folders(memory, ANY) == [], "a young one may be about to get its lock"
    assert holder.folder.is_dir()
    assert remove_left_folders(memory, ANY, later) == [holder.folder]
    assert not holder.folder.exists()


def test_the_next_driver_of_the_user_looks(memory, holder):
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    past = time.time() - HOUR
    os.utime(holder.folder, (past, past))
    with scratch_folder("a" * 32):
        wait_until(lambda: not holder.folder.exists())


def test_a_folder_of_the_same_job_goes_whoever_holds_it(memory, holder):
    with scratch_folder("b" * 32) as folder:
        assert [path for path in memory.iterdir() if path.name.startswith("pystate-")] == [folder]
    assert not holder.folder.exists()


def test_what_has_no_lock_and_what_has_another_name_stays(memory):
    for name in ("pystate-cccccccccccccccc-logs-old", "pystate-cccccccccccccccc-0-0-slot", "mine-logs-x"):
        (memory / name / "0").mkdir(parents=True)
    assert remove_left_folders(memory, ANY, time.time() + HOUR) == []


def test_what_somebody_still_writes_into_stays_with_its_lock_for_the_next_look(memory, monkeypatch):
    folder = HeldFolder(memory, "pystate-c-logs-").path
    (folder / "0").mkdir()
    rmtree = shutil.rmtree
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)  # as if a JVM had made the folder again
    remove_folder(folder)
    assert {path.name for path in folder.iterdir()} == {"0", "lock"}
    monkeypatch.setattr(shutil, "rmtree", rmtree)
    remove_folder(folder)
    assert not folder.exists()


def test_a_folder_of_an_older_version_goes_when_it_is_empty(memory):
    empty = memory / "pystate-dddddddddddddddd-logs-old"
    empty.mkdir()
    assert remove_left_folders(memory, ANY, time.time()) == []
    assert empty.exists(), "a young one may be about to get its lock"
    remove_left_folders(memory, ANY, time.time() + HOUR)
    assert not empty.exists()
