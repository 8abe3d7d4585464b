"""What describes a checkpoint or savepoint completely, with small state inline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from pystate.common.key_groups import MAX_PARALLELISM_LIMIT
from pystate.core.snapshot.handles.handles import StateHandle, handle_from_plain, handle_to_plain
from pystate.core.snapshot.handles.incremental_handle import (
    AnyKeyedStateHandle,
    IncrementalKeyedStateHandle,
    SharedFile,
)
from pystate.core.snapshot.operator_state import OperatorState
from pystate.core.snapshot.plain import (
    as_map,
    take,
    take_enum,
    take_int,
    take_list,
    take_optional_text,
    take_text,
    take_text_if_there,
    take_text_map,
    unsound,
)


class CheckpointType(Enum):
    """The type of a snapshot: owned by the job (deleted when subsumed) or by users (never deleted)."""

    CHECKPOINT = "CHECKPOINT"
    SAVEPOINT = "SAVEPOINT"


class SavepointFormatType(Enum):
    """The format of keyed state: canonical, readable by every backend, or native, the backend's own files."""

    CANONICAL = "CANONICAL"
    NATIVE = "NATIVE"


@dataclass(frozen=True)
class SourcePosition:
    """The position of the sources.

    Attributes:
        query_id: Spark's id of the query; empty if nothing was read.
        epoch: Spark's number of the last included batch, -1 for none.
        sources: Information per source: its number or uid, kind, description, the offset as Spark's JSON text.
        files: An archive of the Spark log files from which a query continues after that batch.
    """

    query_id: str
    epoch: int
    sources: list[dict[str, Any]]
    files: StateHandle

    def to_plain(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "query_id": self.query_id,
            "epoch": self.epoch,
            "sources": [dict(source) for source in self.sources],
            "files": handle_to_plain(self.files),
        }

    @classmethod
    def from_plain(cls, plain: object) -> SourcePosition:
        """Rebuild it.

        Raises:
            CorruptSnapshotError: It isn't one.
        """
        data = as_map(plain, "the source position")
        return cls(
            query_id=take_text(data, "query_id"),
            epoch=take_int(data, "epoch", -1),
            sources=take_list(data, "sources", _source_from_plain),
            files=handle_from_plain(take(data, "files")),
        )


def _source_from_plain(plain: object) -> dict[str, Any]:
    source = as_map(plain, "a source")
    for name, value in source.items():
        if not isinstance(name, str) or not isinstance(value, (str, int, type(None))):
            raise unsound(what=f"a source has an entry {name!r} that is no text and no number")
    return source


@dataclass(frozen=True)
class CheckpointMetadata:
    """The content of `_metadata`.

    Attributes:
        checkpoint_id: Its id; checkpoints and savepoints share one sequence of ids.
        checkpoint_type: Checkpoint or savepoint.
        format: How keyed state is written.
        timestamp_ms: When it was triggered, ms since 1970.
        job_id: The job that took it.
        job_name: Its name.
        epoch: The epoch of the cut, -1 for before the first.
        parallelism: The job's default parallelism.
        max_parallelism: The job's max parallelism.
        operators: State by operator.
        source_position: The position of the sources; None if nothing has been read.
        parent: URI of the snapshot the job itself was started from, or None.
        parent_id: The short id of that snapshot, which is kept when it is moved; None if unknown.
        snapshot_id: Its own short id, see `snapshot_id_of`; None if unknown.
        message: The user's message, or None.
        code_fingerprint: SHA-256 of the job's program in hex, or None.
        configuration: The options in force.
        pystate_version: The version of pystate that wrote it.
        spark_version: The version of Spark.
    """

    checkpoint_id: int
    checkpoint_type: CheckpointType
    format: SavepointFormatType
    timestamp_ms: int
    job_id: str
    job_name: str
    epoch: int
    parallelism: int
    max_parallelism: int
    operators: list[OperatorState]
    source_position: SourcePosition | None = None
    parent: str | None = None
    parent_id: str | None = None
    snapshot_id: str | None = None
    message: str | None = None
    code_fingerprint: str | None = None
    configuration: dict[str, str] = field(default_factory=dict)
    pystate_version: str = ""
    spark_version: str = ""

    @property
    def has_data_in_flight(self) -> bool:
        """Whether it contains in-flight data, which barriers overtook."""
        states = (state for operator in self.operators for state in operator.subtasks.values())
        return any(state.input_channel_state is not None for state in states)

    @property
    def state_size(self) -> int:
        """Bytes of state, the sources' logs included."""
        logs = 0 if self.source_position is None else self.source_position.files.size
        return logs + sum(operator.state_size for operator in self.operators)

    def map_keyed_state(self, change: Callable[[AnyKeyedStateHandle], AnyKeyedStateHandle]) -> CheckpointMetadata:
        """Return the metadata with other handles of keyed state."""
        operators = [operator.map_keyed_state(change) for operator in self.operators]
        return replace(self, operators=operators)

    @property
    def shared_files(self) -> list[SharedFile]:
        """The files that may be shared with other checkpoints."""
        handles = [
            handle for operator in self.operators for state in operator.subtasks.values() for handle in state.keyed_state
        ]
        return [file for one in handles if isinstance(one, IncrementalKeyedStateHandle) for file in one.shared.values()]

    def to_plain(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "checkpoint_id": self.checkpoint_id,
            "checkpoint_type": self.checkpoint_type.value,
            "format": self.format.value,
            "timestamp_ms": self.timestamp_ms,
            "job_id": self.job_id,
            "job_name": self.job_name,
            "epoch": self.epoch,
            "parallelism": self.parallelism,
            "max_parallelism": self.max_parallelism,
            "operators": [operator.to_plain() for operator in self.operators],
            "source_position": None if self.source_position is None else self.source_position.to_plain(),
            "parent": self.parent,
            "parent_id": self.parent_id,
            "snapshot_id": self.snapshot_id,
            "message": self.message,
            "code_fingerprint": self.code_fingerprint,
            "configuration": self.configuration,
            "pystate_version": self.pystate_version,
            "spark_version": self.spark_version,
        }

    @classmethod
    def from_plain(cls, plain: object) -> CheckpointMetadata:
        """Rebuild it.

        Raises:
            CorruptSnapshotError: It isn't one, or its numbers don't fit each other.
        """
        data = as_map(plain, "the body")
        max_parallelism = take_int(data, "max_parallelism", 1, MAX_PARALLELISM_LIMIT)
        operators = take_list(data, "operators", OperatorState.from_plain)
        uids = [operator.uid for operator in operators]
        if len(set(uids)) != len(uids):
            raise unsound(what="two operators have the same uid")
        position = take(data, "source_position")
        return cls(
            checkpoint_id=take_int(data, "checkpoint_id"),
            checkpoint_type=take_enum(data, "checkpoint_type", CheckpointType),
            format=take_enum(data, "format", SavepointFormatType),
            timestamp_ms=take_int(data, "timestamp_ms"),
            job_id=take_text(data, "job_id"),
            job_name=take_text(data, "job_name"),
            epoch=take_int(data, "epoch", -1),
            parallelism=take_int(data, "parallelism", 1, MAX_PARALLELISM_LIMIT),
            max_parallelism=max_parallelism,
            operators=operators,
            source_position=None if position is None else SourcePosition.from_plain(position),
            parent=take_optional_text(data, "parent"),
            parent_id=take_text_if_there(data, "parent_id"),
            snapshot_id=take_text_if_there(data, "snapshot_id"),
            message=take_text_if_there(data, "message"),
            code_fingerprint=take_text_if_there(data, "code_fingerprint"),
            configuration=take_text_map(data, "configuration"),
            pystate_version=take_text(data, "pystate_version"),
            spark_version=take_text(data, "spark_version"),
        )
