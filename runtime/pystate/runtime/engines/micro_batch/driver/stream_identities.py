"""Checks that streams still read what a snapshot's offsets refer to: a topic may have been deleted and recreated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pystate.runtime.engines.micro_batch.spark.spark_checkpoint import SparkSource
from pystate.runtime.plan.job_plan import JobPlan

FILE = "sources/{}/pystate-identity"
"""A file next to Spark's own files of a stream, and so included in Spark's part of each snapshot."""


def checked_identities(plan: JobPlan, sources: Sequence[SparkSource], files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return Spark's logs, extended with the identities that their offsets refer to.

    Args:
        plan: The job's plan.
        sources: The sources of the lines in the query's offset log.
        files: Spark's logs at the cut from which an attempt continues.

    Raises:
        PystateError: The identity has changed, or the external system doesn't report it.
    """
    logs, found = {source.uid: source.log for source in sources}, dict(files)
    for source in plan.sources:
        if source.step.identity is not None:
            name = FILE.format(logs[source.uid])
            found[name] = source.step.identity.check(files.get(name))
    return found
