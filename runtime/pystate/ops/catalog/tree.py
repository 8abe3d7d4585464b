"""The lineage of snapshots: jobs take snapshots, snapshots start jobs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pystate.ops.catalog.snapshot_summary import SnapshotSummary


@dataclass
class JobNode:
    """A job that took snapshots.

    Attributes:
        job_id: The id of the job.
        name: Its name.
        code_fingerprint: The version of its program; None if unknown.
        new_code: Whether it differs from the version that took its parent; None if unknown.
        snapshots: The snapshots it took, oldest first.
    """

    job_id: str
    name: str
    code_fingerprint: str | None
    new_code: bool | None = None
    snapshots: list[SnapshotNode] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return it with all its descendants, as JSON-able data."""
        return {
            "job-id": self.job_id,
            "job-name": self.name,
            "code-fingerprint": self.code_fingerprint,
            "new-code": self.new_code,
            "snapshots": [snapshot.to_json() for snapshot in self.snapshots],
        }


@dataclass
class SnapshotNode:
    """A snapshot.

    Attributes:
        snapshot_id: Its short id, or what else identifies it.
        summary: Its summary; None if it is only known as a parent.
        jobs: The jobs started from it, ordered by their first snapshot.
    """

    snapshot_id: str
    summary: SnapshotSummary | None
    jobs: list[JobNode] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return it with all its descendants, as JSON-able data."""
        return {
            "id": self.snapshot_id,
            "snapshot": None if self.summary is None else self.summary.to_json(),
            "jobs": [job.to_json() for job in self.jobs],
        }


Node = JobNode | SnapshotNode


def version_forest(summaries: Iterable[SnapshotSummary]) -> list[Node]:
    """Return the trees, whose roots are jobs started without a snapshot, and deleted snapshots with children.

    Parents are found by their short ids, so that snapshots may be moved; those without an id by path.
    """
    oldest_first = sorted(summaries, key=lambda one: (one.timestamp_ms, one.checkpoint_id, one.uri))
    jobs: dict[str, JobNode] = {}
    firsts: dict[str, SnapshotSummary] = {}
    nodes: dict[str, SnapshotNode] = {}
    for summary in oldest_first:
        node = SnapshotNode(summary.snapshot_id or summary.uri, summary)
        job = jobs.setdefault(summary.job_id, JobNode(summary.job_id, summary.job_name, summary.code_fingerprint))
        firsts.setdefault(summary.job_id, summary)
        job.snapshots.append(node)
        for name in (summary.snapshot_id, summary.uri):
            if name is not None:
                nodes.setdefault(name, node)
    roots: list[Node] = []
    gone: dict[str, SnapshotNode] = {}
    for job_id, job in jobs.items():
        first = firsts[job_id]
        if first.parent_id is None and first.parent is None:
            roots.append(job)
            continue
        found = nodes.get(first.parent_id or "") or nodes.get(first.parent or "")
        if found is None or _leads_back(found, job_id, firsts, nodes):
            name = first.parent_id or first.parent or ""
            if name not in gone:
                gone[name] = SnapshotNode(name, None)
                roots.append(gone[name])
            found = gone[name]
        if found.summary is not None and None not in (job.code_fingerprint, found.summary.code_fingerprint):
            job.new_code = job.code_fingerprint != found.summary.code_fingerprint
        found.jobs.append(job)
    return roots


def _leads_back(
    parent: SnapshotNode, job_id: str, firsts: dict[str, SnapshotSummary], nodes: dict[str, SnapshotNode]
) -> bool:
    """Return whether a parent descends from its own child, which only damaged or forged metadata can claim."""
    seen = {job_id}
    node: SnapshotNode | None = parent
    while node is not None and node.summary is not None:
        if node.summary.job_id in seen:
            return True
        seen.add(node.summary.job_id)
        first = firsts[node.summary.job_id]
        node = nodes.get(first.parent_id or "") or nodes.get(first.parent or "")
    return False
