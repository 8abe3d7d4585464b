"""The clock of programs that run in one process."""

from __future__ import annotations

import threading
import time
from unittest import mock

from tests.fidelity.in_process import START_MS, Clock


def test_a_thread_that_was_there_before_does_not_set_it_on():
    """As those of an earlier test, which end in their time."""
    has_slept, ended = threading.Semaphore(0), threading.Event()

    def sleep() -> None:
        while not ended.is_set():
            time.sleep(0.001)
            has_slept.release()

    other = threading.Thread(target=sleep)
    other.start()
    try:
        clock = Clock()
        with mock.patch.object(time, "sleep", clock.sleep):
            for _ in range(5):
                has_slept.acquire()
            assert clock() == START_MS
            time.sleep(1)
            assert clock() == START_MS + 1000
    finally:
        ended.set()
        other.join()
