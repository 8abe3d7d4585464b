"""What wakes a subtask's thread."""

from __future__ import annotations

import threading

import pytest

from pystate.runtime.engines.real_time.slot.mailbox import TaskMailbox
from tests.waiting import LONGEST_S


@pytest.mark.parametrize("far", [0.0, 2.0**62 / 1000, None])
def test_mail_comes_to_one_that_waits_however_far_away_its_time_is(far):
    """A timer at the end of time is how programs say never; no lock waits as long as that."""
    mailbox = TaskMailbox()
    looked, done = threading.Event(), threading.Event()

    def has_looked() -> bool:
        looked.set()
        return False

    def run() -> None:
        mailbox.wait(has_looked, far)
        done.set()

    waiting = threading.Thread(target=run, daemon=True)
    waiting.start()
    assert looked.wait(LONGEST_S)
    mailbox.put(lambda: None)
    assert done.wait(LONGEST_S)
    waiting.join()
    assert mailbox.take() is not None
