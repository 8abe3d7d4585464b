"""Sources hear how far completed checkpoints have them read."""

from __future__ import annotations

import threading
from types import SimpleNamespace

from pystate.runtime.engines.micro_batch.driver.offset_reports import OffsetReports
from tests.waiting import LONGEST_S, wait_until


class Listener:
    def __init__(self):
        self.told = []
        self.may_go_on = threading.Event()
        self.closed = False

    def completed(self, offset):
        self.told.append(offset)
        assert self.may_go_on.wait(LONGEST_S)

    def close(self):
        self.closed = True


def checkpoint(**offsets):
    sources = [{"index": index, "uid": uid, "offset": offset} for index, (uid, offset) in enumerate(offsets.items())]
    return SimpleNamespace(metadata=SimpleNamespace(source_position=SimpleNamespace(sources=sources)))


def reports(listener):
    sources = [
        SimpleNamespace(uid="in", step=SimpleNamespace(completed_offsets=listener)),
        SimpleNamespace(uid="other", step=SimpleNamespace(completed_offsets=None)),
    ]
    return OffsetReports(SimpleNamespace(sources=sources))


def test_a_source_that_takes_its_time_holds_nobody_up_and_hears_the_newest():
    listener = Listener()
    telling = reports(listener)
    telling.completed(SimpleNamespace(metadata=SimpleNamespace(source_position=None)))
    telling.completed(checkpoint(**{"in": "-", "other": "9"}))
    for offset in "123":
        telling.completed(checkpoint(**{"in": offset, "other": "9"}))
        wait_until(lambda: listener.told)
    listener.may_go_on.set()
    telling.close()
    assert listener.told == ["1", "3"]
    assert listener.closed


def test_a_job_that_ends_waits_for_what_is_to_be_told():
    listener = Listener()
    listener.may_go_on.set()
    telling = reports(listener)
    telling.completed(checkpoint(**{"in": "7"}))
    telling.close()
    assert listener.told == ["7"]
