"""What authors of bounded sources should know."""

from __future__ import annotations

from collections.abc import Iterator

from pystate.plan.job_plan import JobPlan


def bounded_notices(plan: JobPlan) -> Iterator[str]:
    """Yield a sentence for each bounded source that is read on, since the job has others without an end."""
    for source in plan.sources:
        if source.step.bounded and source.step.watches_files and not plan.bounded:
            yield (
                f"The source {source.step.name!r} reads a fixed set of files, but the job has sources without an end: "
                "files that come later are read too."
            )
