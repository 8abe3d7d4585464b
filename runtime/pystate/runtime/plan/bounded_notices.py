"""Notices for authors of bounded sources."""

from __future__ import annotations

from collections.abc import Iterator

from pystate.runtime.plan.event_time import idle_timeout, source_channels
from pystate.runtime.plan.job_plan import JobPlan


def bounded_notices(plan: JobPlan) -> Iterator[str]:
    """Yield a sentence for each bounded source that holds back event time although it may be exhausted."""
    channels = {} if plan.bounded else source_channels(plan)
    for source in plan.sources:
        step = source.step
        knows_its_end = not step.bounded or step.collection is not None or step.stopping is not None
        if knows_its_end or all(idle_timeout(plan, channel) is not None for channel in channels.get(source.uid, ())):
            continue
        yield (
            f"Event time waits for the source {step.name!r}, whose end nobody tells of beside sources without one: windows "
            "and timers behind it stand still when it gives no more. Give its WatermarkStrategy with_idleness(...)."
        )
