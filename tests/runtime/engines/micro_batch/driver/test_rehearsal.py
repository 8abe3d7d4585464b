"""The rehearsal of an attempt that ends before the rehearsal's Spark job begins."""

from __future__ import annotations

import threading
from types import SimpleNamespace

from pystate.runtime.engines.micro_batch.driver import rehearsal as module
from pystate.runtime.engines.micro_batch.driver.rehearsal import Rehearsal
from tests.waiting import LONGEST_S


def test_a_rehearsal_that_is_stopped_before_its_job_begins_runs_no_task(spark, monkeypatch):
    planning, stopped = threading.Event(), threading.Event()

    def frame(*_):
        planning.set()
        assert stopped.wait(LONGEST_S)
        return spark.range(3)

    monkeypatch.setattr(module, "frame_without_rows", frame)
    one = Rehearsal(spark, None, [], SimpleNamespace(job_id="ab" * 16, attempt=0))
    one.start()
    assert planning.wait(LONGEST_S)
    one._cancel()
    stopped.set()
    one.wait()

    tracker = spark.sparkContext.statusTracker()
    known = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(one._group)]
    assert all(job is None or job.status == "FAILED" for job in known), known
