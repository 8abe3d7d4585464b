"""Notices about state that a job started with `--allowNonRestoredState` drops for good."""

from __future__ import annotations

from collections.abc import Iterable

from pystate.connectors.sink_operator import COMMITTABLES
from pystate.core.snapshot.metadata import OperatorState
from pystate.core.snapshot.starting_snapshot import Snapshot


def non_restored_notices(snapshot: Snapshot, uids: Iterable[str]) -> list[str]:
    """Return a sentence for each operator whose state is dropped.

    Args:
        snapshot: What the job starts from.
        uids: The uids of its operators that the job doesn't have.
    """
    wanted = set(uids)
    where = snapshot.location.uri
    return [_notice(operator, where) for operator in snapshot.metadata.operators if operator.uid in wanted]


def _notice(operator: OperatorState, where: str) -> str:
    left = (
        f"{operator.state_size:,} bytes of state of {operator.name!r} (uid {operator.uid}) are left behind: "
        f"the job has no such operator (--allowNonRestoredState)."
    )
    waiting = _with_committables(operator)
    if not waiting:
        return left
    return (
        f"{left} In them is what {waiting} of {operator.parallelism} subtasks of this sink had written and not committed "
        "when the snapshot was taken. This job commits none of it. The job before has, if it ended by pystate stop or went "
        "on behind the snapshot; if not, it stays invisible unless a program with the sink under this uid is started from "
        f"{where}."
    )


def _with_committables(operator: OperatorState) -> int:
    """Return how many subtasks had committables that weren't committed."""
    states = (subtask.operator_state for subtask in operator.subtasks.values())
    return sum(any(COMMITTABLES in handle.states and handle.states[COMMITTABLES].count for handle in of) for of in states)
