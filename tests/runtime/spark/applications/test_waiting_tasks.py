"""Cores are what is missing where Spark's scheduler says that tasks wait for one, and nowhere else."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pystate.runtime.spark.applications.waiting_tasks import lack_of_cores


def context(cores, *stages):
    """Return an application with stages of (tasks, running, done)."""
    known = {
        number: SimpleNamespace(numTasks=tasks, numActiveTasks=running, numCompletedTasks=done)
        for number, (tasks, running, done) in enumerate(stages)
    }
    tracker = SimpleNamespace(getActiveStageIds=lambda: [*known, 99], getStageInfo=known.get)  # the last ended meanwhile
    return SimpleNamespace(statusTracker=lambda: tracker, defaultParallelism=cores)


def test_tasks_that_wait_while_all_cores_are_taken_lack_cores():
    told = "Spark runs 4 tasks on its 4 cores and 1 wait for one, of 5 that are to run at once"
    assert lack_of_cores(context(4, (2, 2, 0), (3, 2, 0)), 5) == told


@pytest.mark.parametrize(
    "stages",
    [
        ((2, 2, 0), (3, 1, 0)),  # Spark is slow to start one for which there is a core
        ((2, 2, 0),),  # it has not even submitted the others
        ((2, 2, 0), (9, 3, 0)),  # all that are to run do; others of the program wait
        (),
    ],
)
def test_a_slow_start_lacks_none(stages):
    assert lack_of_cores(context(4, *stages), 4) is None
