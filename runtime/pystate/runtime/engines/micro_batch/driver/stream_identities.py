"""Whether what streams read is what a snapshot's offsets are of: a topic may have been deleted and made anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pystate.runtime.engines.micro_batch.spark.spark_checkpoint import SparkSource
from pystate.runtime.plan.job_plan import JobPlan

FILE = "sources/{}/pystate-identity"
"""Lies beside what Spark itself keeps of a stream, and so is in its part of each snapshot."""


def checked_identities(plan: JobPlan, sources: Sequence[SparkSource], files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return Spark's logs with what their offsets are offsets of.

    Args:
        plan: The job.
        sources: What the lines of the query's offset log are about.
        files: Spark's logs at the cut that an attempt goes on from.

    Raises:
        PystateError: It is something else by now, or what is read doesn't say.
    """
    logs, found = {source.uid: source.log for source in sources}, dict(files)
    for source in plan.sources:
        if source.step.identity is not None:
            name = FILE.format(logs[source.uid])
            found[name] = source.step.identity.check(files.get(name))
    return found
