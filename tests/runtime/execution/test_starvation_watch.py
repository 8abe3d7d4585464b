"""A job whose slots hold all cores says so, and only while they do."""

from __future__ import annotations

import pytest

from pystate.runtime.execution.starvation_watch import StarvationWatch

FULL = "Spark runs 2 tasks on its 2 cores and 2 wait for one, of 3 that are to run at once"
FULLER = "Spark runs 2 tasks on its 2 cores and 4 wait for one, of 3 that are to run at once"


@pytest.mark.parametrize(
    ("looks", "said"),
    [
        ([FULL, FULL, FULL], [f"The job stands still: {FULL}."]),
        ([FULL, FULL, None, None], [f"The job stands still: {FULL}.", None]),
        ([FULL, FULL, FULLER], [f"The job stands still: {FULL}.", f"The job stands still: {FULLER}."]),
        ([FULL, None, FULL, None], []),  # a task that is about to get its core
        ([None, None], []),
    ],
)
def test_a_lack_of_cores_is_said_once_it_lasts_and_until_it_ends(looks, said):
    now, told, left = [0.0], [], list(looks)
    watch = StarvationWatch(lambda: left.pop(0), told.append, lambda: now[0])
    while left:
        watch.look()  # too early: it doesn't ask
        now[0] += 5
        watch.look()
    assert told == said
