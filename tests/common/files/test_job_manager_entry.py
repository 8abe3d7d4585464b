"""A damaged `jobmanager.json` is no job manager, unless one holds the home's lock."""

from __future__ import annotations

import fcntl
import json
import os

import pytest

from pystate.common.files.home import PystateHome
from pystate.common.files.job_manager_entry import DamagedAddressError, is_damaged, is_served, read_job_manager

ENTRY = {"pid": 1, "address": "127.0.0.1", "port": 8081, "instance": "x", "version": "0.1.0"}
DAMAGES = [
    b"",
    b"{",
    b"\xff\xfe",
    b"\0" * 100,
    b"[]",
    b"null",
    b'"x"',
    b"{}",
    b"[" * 100_000,
    json.dumps({**ENTRY, "pid": "x"}).encode(),
    json.dumps({**ENTRY, "port": []}).encode(),
    json.dumps(ENTRY).encode()[:40],
]


@pytest.fixture
def home(tmp_path) -> PystateHome:
    return PystateHome(tmp_path)


def test_a_whole_one_is_read_and_a_missing_one_is_none(home):
    assert read_job_manager(home) is None
    home.jobmanager.write_text(json.dumps(ENTRY))
    assert read_job_manager(home) == ENTRY
    assert not is_damaged(home)


@pytest.mark.parametrize("damage", DAMAGES, ids=range(len(DAMAGES)))
def test_a_damaged_one_counts_as_none_where_no_job_manager_holds_the_lock(home, damage):
    home.jobmanager.write_bytes(damage)
    assert is_damaged(home)
    assert read_job_manager(home) is None
    home.jobmanager_lock.touch()
    assert read_job_manager(home) is None


@pytest.mark.parametrize("damage", DAMAGES, ids=range(len(DAMAGES)))
def test_a_damaged_one_is_told_of_where_a_job_manager_runs(home, damage):
    home.jobmanager.write_bytes(damage)
    descriptor = os.open(home.jobmanager_lock, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        assert is_served(home)
        with pytest.raises(DamagedAddressError) as caught:
            read_job_manager(home)
    finally:
        os.close(descriptor)
    assert caught.value.where == str(home.jobmanager)
    assert "the same command in a moment" in str(caught.value.hint)
    assert not is_served(home)
