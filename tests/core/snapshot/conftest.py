"""What tests of checkpoints share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pystate.common.key_groups import key_group_range
from pystate.core.snapshot.handles.handles import ByteStreamStateHandle, FileStateHandle
from pystate.core.snapshot.handles.keyed_state_handle import KeyedStateHandle
from pystate.core.snapshot.metadata import CheckpointMetadata, CheckpointType, SavepointFormatType, SourcePosition
from pystate.core.snapshot.operator_state import OperatorState, OperatorSubtaskState
from pystate.runtime.checkpoint.completed_checkpoint import CompletedCheckpoint

JOB_ID = "83f146a87b5572d7c71730b6a8b1dbae"


def keyed_operator(uid: str, name: str, parallelism: int, max_parallelism: int = 128) -> OperatorState:
    """An operator whose subtask i has one file `uid-i` with its key groups."""
    subtasks = {}
    for index in range(parallelism):
        groups = key_group_range(index, parallelism, max_parallelism)
        handle = KeyedStateHandle(groups.start, groups.end, "canonical", FileStateHandle(f"{uid}-{index}", 100, index))
        subtasks[index] = OperatorSubtaskState([handle])
    return OperatorState(uid, name, parallelism, max_parallelism, {"type": "STRING"}, "pystate-1", subtasks)


@pytest.fixture
def make_operator() -> Callable[..., OperatorState]:
    return keyed_operator


@pytest.fixture
def make_metadata() -> Callable[..., CheckpointMetadata]:
    def make(**changes: Any) -> CheckpointMetadata:
        values: dict[str, Any] = {
            "checkpoint_id": 7,
            "checkpoint_type": CheckpointType.CHECKPOINT,
            "format": SavepointFormatType.CANONICAL,
            "timestamp_ms": 1_795_232_042_719,
            "job_id": JOB_ID,
            "job_name": "word count",
            "epoch": 41,
            "parallelism": 2,
            "max_parallelism": 128,
            "operators": [keyed_operator("count", "Count", 2)],
            "source_position": SourcePosition(
                "a2a3", 41, [{"index": 0, "offset": '{"logOffset":41}'}], ByteStreamStateHandle(b"logs")
            ),
            "parent": None,
            "configuration": {"execution.checkpointing.interval": "10 s"},
            "pystate_version": "0.1.0",
            "spark_version": "4.3.0",
        }
        return CheckpointMetadata(**(values | changes))

    return make


@pytest.fixture
def make_completed(make_metadata: Callable[..., CheckpointMetadata]) -> Callable[..., CompletedCheckpoint]:
    def make(checkpoint_id: int, *, savepoint: bool = False, owned: bool = True) -> CompletedCheckpoint:
        kind = CheckpointType.SAVEPOINT if savepoint else CheckpointType.CHECKPOINT
        metadata = make_metadata(checkpoint_id=checkpoint_id, checkpoint_type=kind)
        return CompletedCheckpoint(metadata, f"memory://c/chk-{checkpoint_id}", 1000 * checkpoint_id, owned)

    return make
