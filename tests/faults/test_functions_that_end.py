"""Functions that end or hold their slot's process under a running job: failures name their lines, and no slot is lost."""

from __future__ import annotations

import ctypes
import os
import sys

import pytest

from pystate.common import Types
from pystate.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pystate.runtime.execution.slots import registered_slot
from tests.faults.processes import needs_proc

pytestmark = [needs_proc, pytest.mark.timeout(300), pytest.mark.slow]

TRICKS = ["os._exit(3)", "Segmentation fault", "SystemExit: 7"]


class Tricks(KeyedProcessFunction):
    """Ends its process in another way at each attempt; in the last one it holds the interpreter, then counts."""

    def __init__(self, folder):
        self.folder = folder

    def process_element(self, value, ctx):
        attempt = len(list(self.folder.iterdir()))
        (self.folder / str(attempt)).touch()
        if attempt == 0:
            os._exit(3)
        if attempt == 1:
            ctypes.string_at(0)
        if attempt == 2:
            sys.exit(7)
        ctypes.PyDLL(None).sleep(16)  # keeps all other Python threads from running, as `CDLL` would not
        yield value


def test_functions_that_end_or_hold_their_process_are_named(run_job, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(registered_slot, "HEARTBEAT_TIMEOUT_S", 12.0)
    folder = tmp_path / "tricks"
    folder.mkdir()
    counted = []

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        words = env.from_collection(["a"], type_info=Types.STRING())
        keyed = words.key_by(lambda word: word, key_type=Types.STRING())
        keyed.process(Tricks(folder), Types.STRING()).uid("tricks").for_each_batch(
            lambda frame, epoch: counted.extend(frame.collect())
        )
        env.execute("tricks")

    options = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "9"}
    job = run_job(program, {**options, "restart-strategy.fixed-delay.delay": "0 s", "parallelism.default": "1"})
    job.wait_for(lambda: job.status["state"] == "FINISHED", 240)
    failures = [failure["message"] for failure in reversed(job.status["failures"])]
    assert len(failures) == len(TRICKS)
    for trick, message in zip(TRICKS, failures, strict=True):
        assert trick in message
    for message in failures[:2]:
        assert f"in process_element of {__file__}" in message
        assert "ran in 'tricks'" in message
    assert len(counted) == 1
    assert "its interpreter is held, by line" in capfd.readouterr().err
