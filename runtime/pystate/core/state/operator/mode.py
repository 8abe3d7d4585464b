"""How operator state is redistributed over the subtasks of a restored job."""

from __future__ import annotations

from enum import Enum


class OperatorStateMode(str, Enum):
    """Flink's modes; the values are part of the snapshot format."""

    SPLIT_DISTRIBUTE = "SPLIT_DISTRIBUTE"  # each element goes to one subtask, evenly
    UNION = "UNION"  # all elements of all subtasks go to every subtask
    BROADCAST = "BROADCAST"  # each subtask gets one old subtask's copy, all of which are the same
