"""Calls of an `AsyncFunction` that hang, in jobs on Spark: timeouts hold, and a job that waits for one can be cancelled."""

from __future__ import annotations

import asyncio
import time

import pytest

from pystate.common import Types
from pystate.common.errors import JobCancelledError
from pystate.common.time import Time
from pystate.datastream import AsyncDataStream, AsyncFunction, StreamExecutionEnvironment
from tests.engines import REAL_TIME, slowly_on_real_time
from tests.faults.workload import Sink

TEXT = Types.STRING()


class Hangs(AsyncFunction):
    """Never answers; says that it was called by a file.

    Args:
        holds: Whether it holds the event loop, as a function does that waits without `await`.
    """

    def __init__(self, called, holds):
        self.called = called
        self.holds = holds

    async def async_invoke(self, value):
        if value == "quick":
            return ["quick"]
        self.called.touch()
        if self.holds:
            time.sleep(3600)
        await asyncio.sleep(3600)
        return []

    def timeout(self, value):
        return [f"{value} timed out"]


def asking(function, sink, timeout):
    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        words = env.from_collection(["quick", "slow", "slow", "quick"], TEXT).rebalance()
        AsyncDataStream.ordered_wait(words, function, timeout, 10, TEXT).uid("asked").for_each_batch(sink)
        env.execute("asking")

    return program


@pytest.mark.slow
def test_calls_that_hang_time_out(run_job, tmp_path):
    sink = Sink()
    run_job(asking(Hangs(tmp_path / "called", False), sink, Time.seconds(1))).result()
    assert sink.rows == {("quick",): 2, ("slow timed out",): 2}


@slowly_on_real_time
@pytest.mark.parametrize("holds", [False, True])
def test_a_job_that_waits_for_a_call_is_cancelled(run_job, engine, tmp_path, holds):
    called, sink = tmp_path / "called", Sink()
    job = run_job(asking(Hangs(called, holds), sink, Time.hours(1)))
    job.wait_for(called.exists)
    job.master.cancel()
    with pytest.raises(JobCancelledError):
        job.result()
    assert set(sink.rows) <= ({("quick",)} if engine == REAL_TIME else set()), "an epoch's results come at its end"
