"""Writes savepoints: Flink's `SavepointWriter`."""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pystate import __version__
from pystate.common.configuration.option_types import nearest_name
from pystate.common.errors import PystateError, SnapshotError, SnapshotExistsError, StateError
from pystate.common.key_groups import check_max_parallelism
from pystate.common.time import current_time_ms
from pystate.core.snapshot.metadata import CheckpointMetadata, CheckpointType, SavepointFormatType
from pystate.core.snapshot.metadata_file import write_metadata
from pystate.core.snapshot.operator_state import OperatorState
from pystate.core.snapshot.reading.snapshot_reader import SnapshotReader
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation, snapshot_id_of
from pystate.core.state.keys.keys import KEY_ENCODING
from pystate.state_processor.entry_frames import merged, write_keyed_state
from pystate.state_processor.existing_state import StateCopier, file_names, joined, narrowed, rehashed
from pystate.state_processor.transformations import (
    KeyedTransformation,
    OperatorStateTransformation,
    OperatorTarget,
    Transformation,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SPARK_LOGS = "spark-logs"


@dataclass(frozen=True)
class _NewOperator:
    uid: str
    name: str
    parallelism: int | None
    transformations: tuple[Transformation, ...]


class SavepointWriter:
    """Builds a savepoint; made by `new_savepoint` or `from_existing_savepoint`. Nothing is written before `write`."""

    def __init__(self, spark: SparkSession, max_parallelism: int, existing: SnapshotReader | None) -> None:
        self._spark = spark
        self._max_parallelism = max_parallelism
        self._existing = existing
        self._kept: dict[str, OperatorState] = {}
        self._new: dict[str, _NewOperator] = {}
        self._rehash = False
        self._keep_sources = True
        self._message: str | None = None
        if existing is not None:
            self._kept = {operator.uid: operator for operator in existing.metadata.operators}

    @staticmethod
    def new_savepoint(spark: SparkSession, max_parallelism: int) -> SavepointWriter:
        """Create an empty savepoint. A job that starts from it reads its sources from the beginning.

        Args:
            spark: The session that writes; its workers must reach the path.
            max_parallelism: The number of key groups of all operators.

        Raises:
            ValueError: The number of key groups is out of range.
        """
        check_max_parallelism(max_parallelism)
        return SavepointWriter(spark, max_parallelism, None)

    @staticmethod
    def from_existing_savepoint(spark: SparkSession, path: str) -> SavepointWriter:
        """Create a savepoint with all operators and source positions of an existing savepoint or checkpoint.

        Args:
            spark: The session that reads and writes; its workers must reach both paths.
            path: The savepoint's directory.

        Raises:
            SnapshotError: It doesn't exist, or is damaged.
            StateError: It is a checkpoint with in-flight data.
        """
        existing = SnapshotReader(path)
        if existing.metadata.has_data_in_flight:
            message = f"{path} holds data in flight, which has no place in a savepoint."
            raise StateError(message, hint="start the job from it, and take a savepoint")
        return SavepointWriter(spark, existing.metadata.max_parallelism, existing)

    def with_operator(
        self, uid: str, *transformations: Transformation, name: str | None = None, parallelism: int | None = None
    ) -> SavepointWriter:
        """Add an operator.

        Args:
            uid: The uid in the job.
            transformations: The transformations that make its state; each makes different states.
            name: The name for display; None for the uid.
            parallelism: The number of files for its state; None for Spark's default. A job can start with any parallelism.

        Raises:
            StateError: The uid exists, or there is no state.
        """
        if uid in self._kept or uid in self._new:
            message = f"The savepoint has an operator {uid!r} already."
            raise StateError(message, hint=f"remove_operator({uid!r}) first, or choose another uid")
        if not uid or not transformations:
            message = "An operator needs a uid and at least one transformation."
            raise StateError(message)
        self._new[uid] = _NewOperator(uid, name or uid, parallelism, transformations)
        return self

    def remove_operator(self, uid: str) -> SavepointWriter:
        """Remove an operator.

        Raises:
            StateError: There is no such operator.
        """
        self._check_known(uid)
        self._kept.pop(uid, None)
        self._new.pop(uid, None)
        return self

    def change_operator_identifier(self, old_uid: str, new_uid: str) -> SavepointWriter:
        """Change the uid of an operator; its state is kept.

        Raises:
            StateError: There is no such operator, or the new uid is taken.
        """
        self._check_known(old_uid)
        if not new_uid or new_uid in self._kept or new_uid in self._new:
            message = f"Operator {old_uid!r} can't become {new_uid!r}: that uid is taken."
            raise StateError(message)
        if old_uid in self._kept:
            self._kept = {new_uid if uid == old_uid else uid: operator for uid, operator in self._kept.items()}
        else:
            self._new = {
                new_uid if uid == old_uid else uid: replace(operator, uid=new_uid) if uid == old_uid else operator
                for uid, operator in self._new.items()
            }
        return self

    def change_max_parallelism(self, max_parallelism: int) -> SavepointWriter:
        """Change the number of key groups of all operators; keys are rehashed.

        Raises:
            ValueError: The number is out of range.
            StateError: An operator has raw keyed state, whose keys are unknown.
        """
        check_max_parallelism(max_parallelism)
        for uid, operator in self._kept.items():
            if any(state.raw_keyed_state for state in operator.subtasks.values()):
                message = f"Operator {uid!r} has raw keyed state: what is in it can't be given to other key groups."
                raise StateError(message, hint=f"remove_operator({uid!r}), or keep the max parallelism")
        self._max_parallelism = max_parallelism
        self._rehash = True
        return self

    def drop_source_positions(self) -> SavepointWriter:
        """Drop the source positions: a job that starts from it reads its sources from the beginning (pystate only)."""
        self._keep_sources = False
        return self

    def with_message(self, message: str) -> SavepointWriter:
        """Set the message of the savepoint, like `pystate savepoint --message` (pystate only)."""
        self._message = message
        return self

    def write(self, path: str) -> str:
        """Write the savepoint.

        Args:
            path: Its directory, which is created; if it exists, it must be empty.

        Returns:
            Its URI, for `pystate run -s`.

        Raises:
            SnapshotExistsError: The directory isn't empty.
            SnapshotError: It can't be written; there is no savepoint then.
            PystateError: The data doesn't fit the states.
        """
        location = SnapshotLocation(path)
        if location.file_names():
            message = f"{location.uri} isn't empty; a savepoint gets a directory of its own."
            raise SnapshotExistsError(message, where=location.uri, hint="name a directory that isn't there yet")
        if not self._kept and not self._new:
            message = "A savepoint without operators is none."
            raise SnapshotError(message, hint="add one with with_operator(...)")
        location.create()
        try:
            metadata = self._written(location)
            self._remove_leftovers(location, metadata)
            location.write_metadata(write_metadata(metadata))
        except BaseException:
            with contextlib.suppress(PystateError):
                for name in location.file_names():
                    location.remove(name)
            raise
        return location.uri

    def _written(self, location: SnapshotLocation) -> CheckpointMetadata:
        operators = [*self._kept_operators(location), *(self._new_operator(one, location) for one in self._new.values())]
        existing = self._existing
        now = current_time_ms()
        if existing is None:
            job_id = secrets.token_hex(16)
            return CheckpointMetadata(
                checkpoint_id=0,
                checkpoint_type=CheckpointType.SAVEPOINT,
                format=SavepointFormatType.CANONICAL,
                timestamp_ms=now,
                job_id=job_id,
                job_name="state processor",
                epoch=-1,
                parallelism=max(operator.parallelism for operator in operators),
                max_parallelism=self._max_parallelism,
                operators=operators,
                snapshot_id=snapshot_id_of(location.uri, job_id) or secrets.token_hex(6),
                message=self._message,
                pystate_version=__version__,
                spark_version=self._spark.version,
            )
        position = existing.metadata.source_position if self._keep_sources else None
        if position is not None:
            copier = StateCopier(self._spark, existing, location)
            position = replace(position, files=copier.copy_file(position.files, _SPARK_LOGS))
        return replace(
            existing.metadata,
            checkpoint_type=CheckpointType.SAVEPOINT,
            format=SavepointFormatType.CANONICAL,
            timestamp_ms=now,
            parallelism=min(existing.metadata.parallelism, self._max_parallelism),
            max_parallelism=self._max_parallelism,
            operators=operators,
            source_position=position,
            parent=existing.location.uri,
            parent_id=existing.metadata.snapshot_id or snapshot_id_of(existing.location.uri, existing.metadata.job_id),
            snapshot_id=snapshot_id_of(location.uri, existing.metadata.job_id) or secrets.token_hex(6),
            message=self._message,
            pystate_version=__version__,
            spark_version=self._spark.version,
        )

    def _kept_operators(self, location: SnapshotLocation) -> list[OperatorState]:
        existing = self._existing
        if existing is None:
            return []
        rehashed_uids = {
            uid
            for uid, operator in self._kept.items()
            if self._rehash and operator.max_parallelism != self._max_parallelism and operator.has_keyed_state
        }
        to_copy = []
        for uid, operator in self._kept.items():
            moved = replace(operator, uid=uid)
            if uid in rehashed_uids:
                subtasks = {index: replace(state, keyed_state=[]) for index, state in operator.subtasks.items()}
                moved = replace(moved, subtasks=subtasks)
            to_copy.append((moved, _prefix(uid)))
        copied = StateCopier(self._spark, existing, location).copy(to_copy)
        return [
            self._rehashed(existing, self._kept[one.uid], one, location) if one.uid in rehashed_uids else self._fitted(one)
            for one in copied
        ]

    def _fitted(self, operator: OperatorState) -> OperatorState:
        if not self._rehash or not operator.key_encoding:  # only keyed state depends on key groups
            return operator
        return replace(narrowed(operator, self._max_parallelism), max_parallelism=self._max_parallelism)

    def _rehashed(
        self, existing: SnapshotReader, old: OperatorState, copied: OperatorState, location: SnapshotLocation
    ) -> OperatorState:
        """Return a kept operator with its keyed state rehashed to the new key groups."""
        fitted = self._fitted(copied)
        entries = rehashed(self._spark, existing, old, self._max_parallelism)
        written = write_keyed_state(entries, location, _prefix(copied.uid), fitted.parallelism, self._max_parallelism)
        return replace(fitted, subtasks=joined(fitted.subtasks, written))

    def _new_operator(self, new: _NewOperator, location: SnapshotLocation) -> OperatorState:
        default = int(self._spark.sparkContext.defaultParallelism)
        parallelism = min(new.parallelism or default, self._max_parallelism)
        target = OperatorTarget(self._spark, new.uid, parallelism, self._max_parallelism)
        keyed = [one.entries(target) for one in new.transformations if isinstance(one, KeyedTransformation)]
        operator = OperatorState(new.uid, new.name, parallelism, self._max_parallelism)
        if keyed:
            entries = merged(new.uid, keyed)
            subtasks = write_keyed_state(entries, location, _prefix(new.uid), parallelism, self._max_parallelism)
            key_type = None if entries.key_type is None else entries.key_type.to_plain()
            operator = replace(operator, key_type=key_type, key_encoding=KEY_ENCODING, subtasks=subtasks)
        for one in new.transformations:
            if isinstance(one, OperatorStateTransformation):
                states = one.write(target, location, _prefix(new.uid))
                operator = replace(operator, subtasks=joined(operator.subtasks, states))
        return operator

    def _remove_leftovers(self, location: SnapshotLocation, metadata: CheckpointMetadata) -> None:
        """Delete the files of failed or duplicate tasks."""
        wanted = file_names(metadata)
        for name in location.file_names():
            if name not in wanted:
                location.remove(name)

    def _check_known(self, uid: str) -> None:
        known = [*self._kept, *self._new]
        if uid in known:
            return
        near = nearest_name(uid, known)
        message = f"The savepoint has no operator {uid!r}; it has: {', '.join(map(repr, known)) or 'none'}."
        raise StateError(message, hint=None if near is None else f"did you mean {near!r}?")


def _prefix(uid: str) -> str:
    return hashlib.md5(uid.encode(), usedforsecurity=False).hexdigest()[:12]
