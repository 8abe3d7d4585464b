"""Shuffle files hold a job's records: nobody else may look into the folder around them."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.runtime.spark.sessions.local_dir import private_local_dir
from pystate.runtime.spark.sessions.session import spark_settings

KEY = "spark.local.dir"


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    return tmp_path


def mode(path: str) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


def test_the_folder_is_private_whatever_the_umask(temporary):
    before = os.umask(0)
    try:
        settings = spark_settings(Configuration({}), temporary / "spark.log")
    finally:
        os.umask(before)
    assert Path(settings[KEY]).parent == temporary
    assert mode(settings[KEY]) == 0o700
    assert private_local_dir() == settings[KEY], "one for all jobs: it stays when they end"


def test_one_that_was_opened_is_closed(temporary):
    path = private_local_dir()
    os.chmod(path, 0o777)  # noqa: S103 - what is to be mended
    assert private_local_dir() == path
    assert mode(path) == 0o700


def test_a_link_of_somebody_else_is_not_followed(temporary):
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir()
    (temporary / f"pystate-{os.getuid()}").symlink_to(elsewhere)
    path = private_local_dir()
    assert Path(path).parent == temporary
    assert not os.path.islink(path)
    assert mode(path) == 0o700


def test_the_users_own_place_counts(temporary, monkeypatch):
    assert spark_settings(Configuration({KEY: "/data/spark"}), temporary / "spark.log")[KEY] == "/data/spark"
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/data/spark")
    assert KEY not in spark_settings(Configuration({}), temporary / "spark.log")
