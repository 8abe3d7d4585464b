"""Shuffle files hold a job's records: nobody else may look into the folder around them."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.runtime.spark.sessions import local_dir
from pystate.runtime.spark.sessions.local_dir import private_local_dir
from pystate.runtime.spark.sessions.session import spark_settings

KEY = "spark.local.dir"


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    monkeypatch.setattr(local_dir, "_held", {})
    return tmp_path


def mode(path: str | Path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


def test_the_folder_is_private_whatever_the_umask(temporary):
    before = os.umask(0)
    try:
        settings = spark_settings(Configuration({}), temporary / "spark.log")
    finally:
        os.umask(before)
    folder = Path(settings[KEY])
    assert folder.parent.parent == temporary
    assert mode(folder.parent) == mode(folder) == 0o700
    assert private_local_dir() == settings[KEY], "one for all jobs of a process"


def test_one_that_was_opened_is_closed(temporary, monkeypatch):
    path = Path(private_local_dir()).parent
    os.chmod(path, 0o777)  # noqa: S103 - what is to be mended
    monkeypatch.setattr(local_dir, "_held", {})
    assert Path(private_local_dir()).parent == path
    assert mode(path) == 0o700


def test_what_a_killed_process_has_left_goes_at_the_start_of_the_next_one(temporary):
    holds = f"import tempfile, time; tempfile.tempdir = {str(temporary)!r}\n" + (
        "from pystate.runtime.spark.sessions.local_dir import private_local_dir\n"
        "print(private_local_dir(), flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", holds], stdout=subprocess.PIPE, text=True) as process:
        left = Path(process.stdout.readline().strip())
        (left / "blockmgr-1").mkdir()
        (left / ".1.sock").touch()
        past = time.time() - 3600
        os.utime(left, (past, past))
        own = Path(private_local_dir())
        assert left.is_dir(), "its process runs"
        process.kill()
    local_dir._held.clear()
    again = Path(private_local_dir())
    assert set(again.parent.iterdir()) == {own, again}


def test_a_link_of_somebody_else_is_not_followed(temporary):
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir()
    (temporary / f"pystate-{os.getuid()}").symlink_to(elsewhere)
    path = Path(private_local_dir()).parent
    assert path.parent == temporary
    assert not os.path.islink(path)
    assert mode(path) == 0o700


def test_the_users_own_place_counts(temporary, monkeypatch):
    assert spark_settings(Configuration({KEY: "/data/spark"}), temporary / "spark.log")[KEY] == "/data/spark"
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/data/spark")
    assert KEY not in spark_settings(Configuration({}), temporary / "spark.log")
