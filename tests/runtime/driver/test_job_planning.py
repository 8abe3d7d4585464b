"""What the driver says of a program when it plans it, without Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pystate.common.configuration.configuration import Configuration
from pystate.common.time import Time
from pystate.core.api.stream_graph import StreamGraph
from pystate.core.api.window.assigners import TumblingEventTimeWindows
from pystate.runtime.driver.program.job_planning import plan_job
from tests.runtime.plan.programs import ROWS, printed, source
from tests.runtime.plan.test_missing_watermarks import step, window


def test_a_stream_without_watermarks_that_event_time_waits_for_is_told_at_the_start():
    root = source("words")
    printed(step(root, window(TumblingEventTimeWindows.of(Time.seconds(1)))))
    said: list[str] = []
    job: Any = SimpleNamespace(configuration=Configuration(), say=said.append, waits=None)
    engine: Any = SimpleNamespace(
        adapt=lambda *_: None, read_sources=lambda _: [ROWS], notices=list, worker_modules=(),
        required_cores=lambda _: 1, planned=lambda _: None,
    )  # fmt: skip
    resources: Any = SimpleNamespace(check_session=lambda: None, notices=lambda **_: [], check_slots=lambda *_, **__: None)
    plan = plan_job(StreamGraph([root]), job, engine, resources, restart=False, supervised=True)
    (told,) = (line for line in said if "waits for the event time" in line)
    assert told.startswith("WARNING: 'late' waits for the event time of all streams that it reads, and 'words' has no")
    assert told.removeprefix("WARNING: ") in plan.warnings, "REST has it, too"
