"""Verifies a snapshot: reads every byte, and reports each problem."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from pystate.common.errors import PystateError
from pystate.common.key_groups import KeyGroupRange
from pystate.core.snapshot.handles.handles import FileStateHandle, StateHandle
from pystate.core.snapshot.handles.incremental_handle import IncrementalKeyedStateHandle
from pystate.core.snapshot.handles.keyed_state_handle import KeyedStateHandle
from pystate.core.snapshot.handles.operator_state_handle import RAW_STATE_NAME, OperatorStateHandle
from pystate.core.snapshot.metadata import CheckpointMetadata
from pystate.core.snapshot.operator_state import OperatorState
from pystate.core.snapshot.reading.inspection import canonical_reader, native_meta
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.core.state.base.state_schema import common_schema
from pystate.core.state.base.timer_schema import schema_of
from pystate.core.state.files.canonical import CanonicalHeader, StateMetaInfoSnapshot
from pystate.core.state.operator.format import OperatorStateReader
from pystate.core.state.operator.raw_state import RAW_KEYED_FORMAT, RAW_OPERATOR_FORMAT, read_raw_state
from pystate.core.state.values.serializers import serializer_from_snapshot
from pystate.ops.catalog.decoding import keyed_problems, operator_problems

Progress = Callable[[int], object]
"""Is told how many bytes have been checked."""


@dataclass(frozen=True)
class Problem:
    """A problem of a snapshot.

    Attributes:
        part: The affected part: an operator's subtask, the sources' logs, the metadata.
        file: The file's path below the snapshot's directory, or its URI; empty if no file is affected.
        what: The problem, in a sentence.
    """

    part: str
    file: str
    what: str

    def to_json(self) -> dict[str, str]:
        """Return it as JSON-able data."""
        return {"part": self.part, "file": self.file, "problem": self.what}


@dataclass(frozen=True)
class _Check:
    """A file of state, and the check of its content."""

    part: str
    handle: StateHandle
    check: Callable[[BinaryIO], None]


class Verification:
    """The verification of one snapshot.

    Args:
        location: The snapshot's directory.
        metadata: The content of its `_metadata`.
        read_logs: Reads the content of the sources' logs; raises PystateError if it is invalid.
        deep: Whether to decode every key and value, too.
    """

    def __init__(
        self,
        location: SnapshotLocation,
        metadata: CheckpointMetadata,
        read_logs: Callable[[bytes], object] | None = None,
        *,
        deep: bool = False,
    ) -> None:
        self._location = location
        self._metadata = metadata
        self._read_logs = read_logs
        self._deep = deep
        self._schemas: dict[tuple[str, str], list[StateMetaInfoSnapshot]] = {}
        self._checks = list(self._all_checks())

    @property
    def files(self) -> int:
        """The number of files besides `_metadata`."""
        return len({check.handle.path for check in self._checks if isinstance(check.handle, FileStateHandle)})

    @property
    def size(self) -> int:
        """The number of bytes to check."""
        return sum(check.handle.size for check in self._checks)

    def problems(self, progress: Progress = lambda _: None) -> list[Problem]:
        """Check everything; return all problems.

        Args:
            progress: Called with the progress.
        """
        found = [problem for operator in self._metadata.operators for problem in _key_group_problems(operator)]
        done = 0
        for check in self._checks:
            try:
                with self._location.open(check.handle) as file:  # reads it completely, for length and checksum
                    check.check(file)
            except PystateError as error:
                place = check.handle.path if isinstance(check.handle, FileStateHandle) else "_metadata"
                found.append(Problem(check.part, place, error.message))
            done += check.handle.size
            progress(done)
        found += self._schema_problems()
        if self._deep:
            found += self._decoding_problems({problem.part for problem in found})
        return found

    def _schema_problems(self) -> Iterator[Problem]:
        """Return the states whose descriptions in the files are inconsistent."""
        for (uid, name), schemas in self._schemas.items():
            if len(schemas) > 1 and common_schema(schemas) is None:
                told = " and as ".join(str(schema_of(one)) for one in schemas)
                what = f"State {name!r} is described as {told}; no one of them takes over the others."
                yield Problem(f"operator {uid!r}", "", f"{what} It can't be restored at another parallelism.")

    def _decoding_problems(self, damaged: set[str]) -> Iterator[Problem]:
        """Decode everything in the parts without a problem so far."""
        for operator in self._metadata.operators:
            for index, state in sorted(operator.subtasks.items()):
                part = _part(operator, index)
                if part not in damaged:
                    try:
                        for keyed in state.keyed_state:
                            yield from (Problem(part, "", what) for what in keyed_problems(self._location, operator, keyed))
                        for handle in state.operator_state:
                            yield from (Problem(part, "", what) for what in operator_problems(self._location, handle))
                    except PystateError as error:
                        yield Problem(part, "", error.message)

    def _all_checks(self) -> Iterator[_Check]:
        for operator in self._metadata.operators:
            for index, state in sorted(operator.subtasks.items()):
                part = _part(operator, index)
                for keyed in state.keyed_state:
                    yield from self._keyed(part, operator, keyed)
                for handle in state.operator_state:
                    yield _Check(part, handle.handle, self._operator_check(handle))
                for raw in state.raw_keyed_state:
                    yield _Check(part, raw.handle, self._raw_keyed_check(raw))
                for handle in state.raw_operator_state:
                    yield _Check(part, handle.handle, self._raw_operator_check(handle))
                if state.input_channel_state is not None:
                    for in_flight in state.input_channel_state.handles:
                        yield _Check(part, in_flight, lambda _: None)
        position = self._metadata.source_position
        if position is not None:
            yield _Check("the sources' logs", position.files, self._logs_check)

    def _keyed(
        self, part: str, operator: OperatorState, keyed: KeyedStateHandle | IncrementalKeyedStateHandle
    ) -> Iterator[_Check]:
        if isinstance(keyed, IncrementalKeyedStateHandle):
            yield _Check(part, keyed.meta, lambda file: self._check_native(file, operator, keyed))
            for _, handle in sorted(keyed.files.items()):
                yield _Check(part, handle, lambda _: None)
            return
        yield _Check(part, keyed.handle, lambda file: self._check_canonical(file, operator, keyed))

    def _check_canonical(self, file: BinaryIO, operator: OperatorState, keyed: KeyedStateHandle) -> None:
        reader = canonical_reader(keyed, file, self._location.uri)
        self._check_header(reader.header, operator, keyed.key_group_range)
        for key_group in reader.key_groups():
            for state in reader.header.states:
                for _ in reader.entries(state, key_group):
                    pass

    def _check_native(self, file: BinaryIO, operator: OperatorState, keyed: IncrementalKeyedStateHandle) -> None:
        self._check_header(native_meta(keyed, file, self._location.uri).header, operator, keyed.key_group_range)

    def _check_header(self, header: CanonicalHeader, operator: OperatorState, key_groups: KeyGroupRange) -> None:
        if (header.max_parallelism, header.key_group_range) != (operator.max_parallelism, key_groups):
            message = (
                f"It holds key groups {header.key_group_range} of {header.max_parallelism} where the metadata says "
                f"{key_groups} of {operator.max_parallelism}."
            )
            raise PystateError(message)
        plain = None if header.key_type is None else header.key_type.to_plain()
        if (header.key_encoding, plain) != (operator.key_encoding, operator.key_type):
            message = "Its keys are of another type or encoding than the metadata says."
            raise PystateError(message)
        for state in header.states:
            schema_of(state)
            known = self._schemas.setdefault((operator.uid, state.name), [])
            if state.schema not in known:
                known.append(state.schema)

    def _operator_check(self, handle: OperatorStateHandle) -> Callable[[BinaryIO], None]:
        def check(file: BinaryIO) -> None:
            reader = OperatorStateReader(file, self._location.uri)
            stated = {name: (info.mode, info.count) for name, info in handle.states.items()}
            if {name: (info.mode, info.entries) for name, info in reader.states.items()} != stated:
                message = "It holds other states than the metadata says."
                raise PystateError(message)
            for name, info in reader.states.items():
                serializer_from_snapshot(info.serializer)
                for _ in reader.entries(name, 0, info.entries):
                    pass

        return check

    def _raw_keyed_check(self, raw: KeyedStateHandle) -> Callable[[BinaryIO], None]:
        def check(file: BinaryIO) -> None:
            key_groups = raw.key_group_range
            for _ in read_raw_state(file, RAW_KEYED_FORMAT, range(key_groups.start, key_groups.end + 1), self._location.uri):
                pass

        return check

    def _raw_operator_check(self, handle: OperatorStateHandle) -> Callable[[BinaryIO], None]:
        def check(file: BinaryIO) -> None:
            info = handle.states.get(RAW_STATE_NAME)
            count = 0 if info is None else info.count
            found = sum(1 for _ in read_raw_state(file, RAW_OPERATOR_FORMAT, range(count), self._location.uri))
            if found != count:
                message = f"It holds {found} partitions where the metadata says {count}."
                raise PystateError(message)

        return check

    def _logs_check(self, file: BinaryIO) -> None:
        if self._read_logs is not None:
            self._read_logs(file.read())


def _part(operator: OperatorState, subtask: int) -> str:
    return f"operator {operator.uid!r}, subtask {subtask}"


def _key_group_problems(operator: OperatorState) -> Iterator[Problem]:
    """Return the missing and duplicate key groups of an operator with keyed state."""
    ranges = sorted(
        (handle.start_key_group, handle.end_key_group)
        for state in operator.subtasks.values()
        for handle in state.keyed_state
    )
    if operator.key_encoding is None:
        if ranges:
            yield Problem(f"operator {operator.uid!r}", "", "It has keyed state, and its keys are not described.")
        return
    if not ranges:
        return
    expected = 0
    for start, end in ranges:
        if start > expected:
            yield Problem(f"operator {operator.uid!r}", "", f"Key groups {expected}-{start - 1} are missing.")
        elif start < expected:
            yield Problem(f"operator {operator.uid!r}", "", f"Key groups {start}-{min(end, expected - 1)} are there twice.")
        expected = max(expected, end + 1)
    if expected < operator.max_parallelism:
        last = operator.max_parallelism - 1
        yield Problem(f"operator {operator.uid!r}", "", f"Key groups {expected}-{last} are missing.")
