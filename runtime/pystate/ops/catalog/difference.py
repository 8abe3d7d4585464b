"""The difference between two snapshots."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from enum import Enum
from itertools import groupby
from operator import itemgetter
from typing import Any, Generic, TypeVar

from pystate.common.errors import SnapshotError, UsageError
from pystate.core.snapshot.handles.incremental_handle import IncrementalKeyedStateHandle
from pystate.core.snapshot.metadata import CheckpointMetadata
from pystate.core.snapshot.operator_state import OperatorState
from pystate.core.snapshot.reading.inspection import OperatorFigures, StateFigures, canonical_reader
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.core.state.base.state_schema import namespace_end
from pystate.core.state.files.canonical import CanonicalReader, Entry, StateMetaInfoSnapshot
from pystate.core.state.keys.keys import KEY_ENCODING, KeyCodec
from pystate.core.state.kinds.list_parts import unpack_part

F = TypeVar("F")

_DIGEST_BYTES = 16

SameContent = Callable[[str, StateFigures], bool | None]
"""Tells of a state of an operator whether two snapshots hold the same in it; None where that can't be told."""


def _not_compared(uid: str, state: StateFigures) -> bool | None:
    del uid, state
    return None


class Change(Enum):
    """How something changed from one snapshot to the other."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    SAME = "same"
    ALIKE = "alike"
    """By all that can be seen without its backend: type, entries, bytes. What it holds was not compared."""


@dataclass(frozen=True)
class Difference(Generic[F]):
    """Something in two snapshots; None if one lacks it."""

    before: F | None
    after: F | None

    @property
    def some(self) -> F:
        """The later version if both exist, else the existing one."""
        found = self.after or self.before
        assert found is not None  # noqa: S101 - one of them has it
        return found

    @property
    def change(self) -> Change:
        """How it changed."""
        if self.before is None:
            return Change.ADDED
        if self.after is None:
            return Change.REMOVED
        return self._compared(self.before, self.after)

    @abstractmethod
    def _compared(self, before: F, after: F) -> Change:
        """Return CHANGED, SAME, or ALIKE."""


@dataclass(frozen=True)
class StateDifference(Difference[StateFigures]):
    """A state in two snapshots.

    Attributes:
        same_content: Whether its content is the same in both; None if unknown.
    """

    same_content: bool | None = None

    @property
    def type_changed(self) -> bool:
        """Whether the type of its values has changed."""
        return None not in (self.before, self.after) and self._described(self.before) != self._described(self.after)

    @staticmethod
    def _described(state: StateFigures | None) -> tuple[str, str, bool] | None:
        return None if state is None else (state.kind, state.type, state.ttl)

    @property
    def same_figures(self) -> bool:
        """Whether both snapshots have it with the same type, entries and bytes."""
        if self.before is None or self.after is None or self.type_changed:
            return False
        return (self.before.entries, self.before.size) == (self.after.entries, self.after.size)

    def _compared(self, before: StateFigures, after: StateFigures) -> Change:
        del before, after
        if not self.same_figures or self.same_content is False:
            return Change.CHANGED
        return Change.ALIKE if self.same_content is None else Change.SAME

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON-able data."""
        return {
            "name": self.some.name,
            "change": self.change.value,
            "type-changed": self.type_changed,
            "before": None if self.before is None else self.before.to_json(),
            "after": None if self.after is None else self.after.to_json(),
        }


@dataclass(frozen=True)
class OperatorDifference(Difference[OperatorFigures]):
    """An operator in two snapshots, with its states."""

    states: tuple[StateDifference, ...]

    def _compared(self, before: OperatorFigures, after: OperatorFigures) -> Change:
        described = [(one.name, one.parallelism, one.max_parallelism, one.key_type) for one in (before, after)]
        changes = {state.change for state in self.states}
        if described[0] != described[1] or changes - {Change.SAME, Change.ALIKE}:
            return Change.CHANGED
        if before.size != after.size and Change.ALIKE in changes:
            return Change.CHANGED
        return Change.ALIKE if Change.ALIKE in changes else Change.SAME

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON-able data."""
        return {
            "uid": self.some.uid,
            "change": self.change.value,
            "before": None if self.before is None else _without_states(self.before),
            "after": None if self.after is None else _without_states(self.after),
            "states": [state.to_json() for state in self.states],
        }


def _without_states(figures: OperatorFigures) -> dict[str, Any]:
    plain = figures.to_json()
    del plain["states"]
    return plain


def compare(
    before: list[OperatorFigures], after: list[OperatorFigures], same_content: SameContent = _not_compared
) -> list[OperatorDifference]:
    """Return the operators of two snapshots side by side, by uid.

    Args:
        before: The operators of the earlier snapshot.
        after: The operators of the later snapshot.
        same_content: Called with the operator's uid for each state with the same figures; returns whether its content is the
            same.
    """
    old, new = ({operator.uid: operator for operator in operators} for operators in (before, after))
    return [_side_by_side(old.get(uid), new.get(uid), same_content) for uid in sorted(old.keys() | new.keys())]


def _side_by_side(
    before: OperatorFigures | None, after: OperatorFigures | None, same_content: SameContent
) -> OperatorDifference:
    old, new = ({} if one is None else {_named(state): state for state in one.states} for one in (before, after))
    states = []
    for name in sorted(old.keys() | new.keys()):
        state = StateDifference(old.get(name), new.get(name))
        if state.same_figures and before is not None:
            state = replace(state, same_content=same_content(before.uid, state.some))
        states.append(state)
    return OperatorDifference(before, after, tuple(states))


def _named(state: StateFigures) -> tuple[str, str]:
    """Return the identity of a state: its name within its family; a VALUE that became a LIST is the same state."""
    family = (
        "operator" if state.kind in ("OPERATOR LIST", "UNION LIST", "BROADCAST") else state.kind if not state.name else ""
    )
    return state.name, family


# -- keys


@dataclass(frozen=True)
class SnapshotState:
    """A keyed state of one operator in one snapshot.

    Attributes:
        location: The snapshot.
        metadata: The content of its `_metadata`.
        uid: The operator.
        name: The state.
    """

    location: SnapshotLocation
    metadata: CheckpointMetadata
    uid: str
    name: str

    @property
    def operator(self) -> OperatorState | None:
        """The operator; None if the snapshot lacks it."""
        return next((operator for operator in self.metadata.operators if operator.uid == self.uid), None)


def key_changes(before: SnapshotState, after: SnapshotState) -> Iterator[tuple[Change, Any]]:
    """Iterate over the keys that differ between two snapshots: (change, key).

    Only the keys of one key group are in memory at a time.

    Raises:
        UsageError: Neither snapshot has such a state.
        SnapshotError: They can't be compared, or a file is damaged.
    """
    operators = [side.operator for side in (before, after)]
    counts = {operator.max_parallelism for operator in operators if operator is not None}
    if len(counts) > 1:
        numbers = " and ".join(map(str, sorted(counts)))
        message = f"The operator {before.uid!r} has {numbers} key groups in the two snapshots: its keys can't be compared."
        raise SnapshotError(message)
    with ExitStack() as files:
        old, new = (_KeyedState(side, files) for side in (before, after))
        if not (old.exists or new.exists):
            known = sorted({name for side in (old, new) for name in side.names})
            message = f"Neither snapshot has a keyed state {before.uid}/{before.name}."
            raise UsageError(message, hint=f"there are: {', '.join(known)}" if known else None)
        for key_group in range(max(counts)):
            gone, fresh = old.digests(key_group), new.digests(key_group)
            for key, digest in fresh.items():
                was = gone.pop(key, None)
                if was is None:
                    yield Change.ADDED, new.external(key)
                elif was != digest:
                    yield Change.CHANGED, new.external(key)
            for key in gone:
                yield Change.REMOVED, old.external(key)


class _KeyedState:
    """A state over all files of its operator."""

    def __init__(self, state: SnapshotState, files: ExitStack) -> None:
        self._name = state.name
        self._readers: list[CanonicalReader] = []
        self.names: set[str] = set()
        operator = state.operator
        subtasks = [] if operator is None else operator.subtasks.values()
        for handle in (handle for subtask in subtasks for handle in subtask.keyed_state):
            if isinstance(handle, IncrementalKeyedStateHandle):
                message = "The keys of a native snapshot can't be read one by one."
                raise SnapshotError(message, where=state.location.uri, hint="compare canonical savepoints")
            file = files.enter_context(state.location.open_unchecked(handle.handle))
            reader = canonical_reader(handle, file, state.location.uri)
            if reader.header.key_encoding != KEY_ENCODING:
                message = f"The keys are encoded as {reader.header.key_encoding!r}, which this pystate doesn't know."
                raise SnapshotError(message, where=state.location.uri)
            self.names |= {f"{state.uid}/{info.name}" for info in reader.header.states}
            if any(info.name == state.name for info in reader.header.states):
                self._readers.append(reader)
        self.exists = bool(self._readers)

    def digests(self, key_group: int) -> dict[bytes, bytes]:
        """Return a digest of the entries of each key of a key group."""
        found: dict[bytes, bytes] = {}
        for reader in self._readers:
            info = next(one for one in reader.header.states if one.name == self._name)
            digest = _list_digest if info.kind == "LIST" else _digest
            totals: dict[bytes, int] = {}
            for (key, namespace), entries in groupby(reader.entries(self._name, key_group), _place_in(info)):
                one = hashlib.blake2b(namespace + digest(entries), digest_size=_DIGEST_BYTES).digest()
                totals[key] = totals.get(key, 0) + int.from_bytes(one, "big")
            found |= {
                key: (total % (1 << 8 * _DIGEST_BYTES)).to_bytes(_DIGEST_BYTES, "big") for key, total in totals.items()
            }
        return found

    def external(self, key: bytes) -> Any:
        """Return a key as user code sees it."""
        keys = KeyCodec(self._readers[0].header.key_type)
        return keys.external(keys.decode(key))


def _place_in(info: StateMetaInfoSnapshot) -> Callable[[Entry], tuple[bytes, bytes]]:
    """Return the function that groups the entries of a state: by key and namespace; timers each on their own."""
    if info.timers is not None:
        return itemgetter(0, 1)
    if info.namespace is None:
        return lambda entry: (entry[0], b"")
    return lambda entry: (entry[0], entry[1][: namespace_end(info, entry[1])])


def _digest(entries: Iterable[Entry]) -> bytes:
    """Return a digest of entries in any order: backends order the entries of a map differently."""
    total = 0
    for _, sub_key, value in entries:
        one = hashlib.blake2b(len(sub_key).to_bytes(8, "big") + sub_key + value, digest_size=_DIGEST_BYTES)
        total += int.from_bytes(one.digest(), "big")
    return (total % (1 << 8 * _DIGEST_BYTES)).to_bytes(_DIGEST_BYTES, "big")


def _list_digest(entries: Iterable[Entry]) -> bytes:
    """Return a digest of a list's elements: backends split lists differently."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for _, _, part in entries:
        for element in unpack_part(part):
            digest.update(len(element).to_bytes(8, "big"))
            digest.update(element)
    return digest.digest()


def state_path(text: str) -> tuple[str, str]:
    """Return operator uid and state name from `UID/STATE`; the uid may contain slashes.

    Raises:
        UsageError: It is something else.
    """
    uid, slash, name = text.rpartition("/")
    if not slash or not uid or not name:
        message = f"{text!r} must be an operator's uid and a state's name, as in count/total."
        raise UsageError(message, hint="pystate savepoints inspect shows them")
    return uid, name
