"""The states of one backend by name: declared ones, and restored ones that are not declared yet.

Restored entries stay as written until a descriptor declares them. States that are never declared are written unchanged to
the next snapshot, so a job may leave a state unused for a while.

The files of one snapshot may have different schemas of a state: a job that was restored with another type, or with a time to
live, converts a subtask's entries when the subtask declares the state, which may be late. So entries are kept by schema, as
parts of the state, and are all converted when it is declared; until then each part is written unchanged to snapshots.

Generic in the backend's types for the store of a declared state, and for the raw entries of an undeclared one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO, Generic, TypeVar

from pystate.common.errors import CorruptSnapshotError, RestoreError, StateDeclarationError, StateError
from pystate.core.api.state import StateKind
from pystate.core.state.base.canonical_restore import Block, check_header_fits, restored_blocks
from pystate.core.state.base.state_schema import Migration, StateSchema, kind_of, resolve_migration
from pystate.core.state.base.timer_schema import TimerSchema, check_timers
from pystate.core.state.files.canonical import CanonicalReader, StateMetaInfoSnapshot
from pystate.core.state.keys.key_context import InternalKeyContext

S = TypeVar("S")
R = TypeVar("R")

Schema = StateSchema | TimerSchema


@dataclass(frozen=True)
class RegisteredState(Generic[S]):
    """A declared state: its schema, its description in snapshots, and the store of its flushed values."""

    schema: Schema
    info: StateMetaInfoSnapshot
    store: S


@dataclass(frozen=True)
class RestoredState(Generic[R]):
    """A restored, undeclared state: its description in the snapshot, and its unchanged entries."""

    info: StateMetaInfoSnapshot
    raw: R


class StateRegistry(Generic[S, R]):
    """The states by name.

    Args:
        create_store: Creates the store of a new state.
        create_raw: Creates the container of raw entries of a restored state.
        adopt: Creates the store of a state from the raw entries of its parts, with the migration of each.
    """

    def __init__(
        self,
        create_store: Callable[[str, Schema], S],
        create_raw: Callable[[StateMetaInfoSnapshot], R],
        adopt: Callable[[str, Schema, Sequence[tuple[R, Migration | None]]], S],
    ) -> None:
        self._create_store = create_store
        self._create_raw = create_raw
        self._adopt = adopt
        self._states: dict[str, RegisteredState[S] | RestoredState[R]] = {}

    def declared(self) -> Iterator[tuple[str, RegisteredState[S]]]:
        """Iterate over (name, state) of the declared states; thread-safe, while others are being declared."""
        return ((name, state) for name, state in list(self._states.items()) if isinstance(state, RegisteredState))

    def undeclared(self) -> Iterator[tuple[str, R]]:
        """Iterate over (key, raw entries) of the parts of undeclared restored states."""
        return ((key, state.raw) for key, state in list(self._states.items()) if isinstance(state, RestoredState))

    def names(self) -> list[str]:
        """Return the names of all states."""
        return list(dict.fromkeys(state.info.name for state in self._states.values()))

    def meta_infos(self) -> list[StateMetaInfoSnapshot]:
        """Return the descriptions of the states for a snapshot."""
        return [state.info for state in self._states.values()]

    def clear(self) -> None:
        """Drop all states."""
        self._states.clear()

    def check_empty(self) -> None:
        """Reject a restore if there is state already.

        Raises:
            StateError: There are states.
        """
        if self._states:
            message = "State can only be restored into an empty backend."
            raise StateError(message)

    def declare(self, name: str, schema: Schema, now: int) -> RegisteredState[S]:
        """Declare a state and return it, with its restored values, if any.

        Args:
            name: Its name.
            schema: As what it is declared.
            now: See `resolve_migration`.

        Raises:
            RestoreError: The restored values can't be read as what is declared.
            StateError: The state was declared as something else.
        """
        info = schema.meta_info(name)
        known = self._states.get(name)
        if isinstance(known, RegisteredState):
            if known.info == info:
                return known
            message = f"State {name!r} was declared as {known.schema} before, and now as {schema}."
            raise StateDeclarationError(message, hint="give one of them another name")
        parts = self._parts(name)
        if parts:
            store = self._adopt(name, schema, [(part.raw, _migration(part.info, schema, now)) for part in parts])
        else:
            store = self._create_store(name, schema)
        for part in parts[1:]:
            del self._states[part.info.key]
        state = RegisteredState(schema, info, store)
        self._states[name] = state
        return state

    def restore(
        self,
        context: InternalKeyContext,
        sources: Iterable[BinaryIO],
        take: Callable[[R, int, Iterator[Block]], None],
    ) -> None:
        """Read canonical files. After an error the states are dropped; the caller must clean up their raw entries.

        Args:
            context: The key context, with the wanted key groups.
            sources: See `KeyedStateBackend.restore`.
            take: Called with the container of a state's raw entries, a key group, and its entries in non-empty blocks.
                Sub-keys are valid for the state's kind; of the keys only the first was checked.

        Raises:
            CorruptSnapshotError, RestoreError, StateError: See `KeyedStateBackend.restore`.
        """
        self.check_empty()
        seen: dict[tuple[str, int], int] = {}  # the file that has the entries
        try:
            for number, source in enumerate(sources):
                reader = CanonicalReader(source)
                check_header_fits(reader.header, context)
                for info in reader.header.states:
                    raw, kind = self._restored(info)
                    for key_group, blocks in restored_blocks(reader, context, info, kind):
                        if seen.setdefault((info.name, key_group), number) != number:
                            message = f"State {info.name!r} has key group {key_group} twice: the files overlap."
                            raise RestoreError(message)
                        take(raw, key_group, blocks)
        except BaseException:
            self._states.clear()
            raise

    def add_restored(self, info: StateMetaInfoSnapshot, raw: R | None = None) -> R:
        """Add a state of a snapshot; return its container of raw entries, the same for all files with the same schema.

        Args:
            info: What the file says about it.
            raw: Where they are already, for a schema that isn't known yet; None to make room for them.

        Raises:
            CorruptSnapshotError: The state is declared, or another file says that it is of another kind.
            RestoreError: It is of a kind this version doesn't know.
        """
        return self._restored(info, raw)[0]

    def _restored(self, info: StateMetaInfoSnapshot, raw: R | None = None) -> tuple[R, StateKind]:
        kind = kind_of(info)
        parts = self._parts(info.name)
        if any(part.info.kind != info.kind for part in parts) or (not parts and info.name in self._states):
            message = f"State {info.name!r} is of different kinds in the files of one snapshot."
            raise CorruptSnapshotError(message)
        for part in parts:
            if part.info.schema == info.schema:
                return part.raw, kind
        numbered = replace(info, part=len(parts))
        part = RestoredState(numbered, self._create_raw(numbered) if raw is None else raw)
        self._states[numbered.key] = part
        return part.raw, kind

    def _parts(self, name: str) -> list[RestoredState[R]]:
        """Return the restored parts of an undeclared state."""
        found = (state for state in self._states.values() if isinstance(state, RestoredState))
        return [state for state in found if state.info.name == name]


def _migration(info: StateMetaInfoSnapshot, schema: Schema, now: int) -> Migration | None:
    if isinstance(schema, TimerSchema):
        check_timers(info, schema)
        return None
    if info.timers is not None:
        message = f"State {info.name!r} was written as {TimerSchema.from_meta_info(info)}; the job declares {schema}."
        raise RestoreError(message, hint="give the new state another name")
    return resolve_migration(info, schema, now)
