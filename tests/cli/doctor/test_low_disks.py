"""Disks with little room, as commands tell of them."""

from __future__ import annotations

import pytest

from pystate.runtime.rest.cluster_messages import DiskInfo, DisksInfo
from pystate_cli.client.rest_client import RestError
from pystate_cli.doctor.low_disks import low_disks


class Client:
    def __init__(self, answer):
        self.answer = answer

    def get(self, path, kind):
        assert (path, kind) == ("/pystate/disks", DisksInfo)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_a_job_manager_that_knows_no_disks_is_no_error():
    assert low_disks(Client(RestError("Not found: /pystate/disks", 404))) == []
    with pytest.raises(RestError, match="it broke"):
        low_disks(Client(RestError("it broke", 500)))


def test_names_of_one_disk_are_one_sentence():
    disks = [
        DiskInfo(name="home", path="/a", free=1 << 20, total=1 << 30, low=True),
        DiskInfo(name="logs", path="/b", free=1 << 20, total=1 << 30, low=True),
        DiskInfo(name="scratch", path="/c", free=1 << 29, total=1 << 30, low=False),
    ]
    (sentence,) = low_disks(Client(DisksInfo(disks=disks)))
    assert "at /a (home, logs): jobs fail on a full disk" in sentence
