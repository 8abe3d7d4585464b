"""The queryable states of a slot by name, and the answers to requests (Flink's KvStateRegistry)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack

from pystate.common.errors import StateDeclarationError
from pystate.common.time import current_time_ms
from pystate.core.queryable.kv_state_messages import Consistency, QueryableState, QueryOutcome, StateAnswer, StateRead
from pystate.core.queryable.server.answer_room import AnswerRoom
from pystate.core.queryable.server.kv_state_entry import KvStateEntry, version_of
from pystate.core.state.base.committed_states import CommittedStates, CommittedVersion
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.core.state.base.queryable_states import QueryableStateInfo


class KvStateRegistry:
    """The keyed backends of a slot's subtasks. States that a function declares late are found when they are requested.

    Args:
        clock: Returns the time for expiring values, ms since 1970.
    """

    def __init__(self, clock: Callable[[], int] = current_time_ms) -> None:
        self._clock = clock
        self._subtasks: list[tuple[str, KeyedStateBackend, CommittedStates]] = []
        self._entries: dict[str, KvStateEntry] = {}
        self._lock = threading.Lock()

    def add(self, uid: str, backend: KeyedStateBackend, versions: CommittedStates) -> None:
        """Register a subtask's states.

        Args:
            uid: The operator's uid.
            backend: Its keyed state.
            versions: The versions that queries can read.

        Raises:
            StateDeclarationError: Another state has the same queryable name.
        """
        with self._lock:
            self._subtasks.append((uid, backend, versions))
        self._look()

    def states(self) -> list[QueryableState]:
        """Return all states declared so far.

        Raises:
            StateDeclarationError: Two states have the same queryable name.
        """
        self._look()
        with self._lock:
            return [entry.description for entry in self._entries.values()]

    def read(self, consistency: Consistency, reads: Iterable[StateRead]) -> list[StateAnswer]:
        """Answer reads in order, all reads of a subtask from the same version, while there is room for the answers."""
        held: dict[int, CommittedVersion | None] = {}
        room = AnswerRoom()
        with ExitStack() as stack:
            return [self._answer(read, consistency, held, stack, room) for read in reads]

    def _answer(
        self,
        read: StateRead,
        consistency: Consistency,
        held: dict[int, CommittedVersion | None],
        stack: ExitStack,
        room: AnswerRoom,
    ) -> StateAnswer:
        entry = self._entries.get(read.name)
        if entry is None:
            self._look()
            entry = self._entries.get(read.name)
        if entry is None:
            return StateAnswer(QueryOutcome.UNKNOWN_STATE)
        versions = entry.versions
        if read.cursor is not None:
            key = version_of(read.cursor)
            with versions.reading(live=False, key=key) as version:
                if key is None or version is None:
                    return StateAnswer(QueryOutcome.VERSION_GONE)
                return self._read(entry, read, version, room)
        if id(versions) not in held:
            held[id(versions)] = stack.enter_context(versions.reading(live=consistency is Consistency.LIVE))
        version = held[id(versions)]
        if version is None:
            return StateAnswer(QueryOutcome.NOT_SERVING)
        return self._read(entry, read, version, room)

    @staticmethod
    def _read(entry: KvStateEntry, read: StateRead, version: CommittedVersion, room: AnswerRoom) -> StateAnswer:
        answer = entry.read(read, version, room)
        if answer.cursor is not None:
            entry.versions.pin(version)
        return answer

    def _look(self) -> None:
        """Find states that were declared since the last call."""
        with self._lock:
            for uid, backend, versions in self._subtasks:
                for name, info in backend.queryable_states().items():
                    known = self._entries.get(name)
                    if known is None:
                        description = _description(name, uid, backend, info)
                        self._entries[name] = KvStateEntry(
                            description, info, backend.key_codec, backend.key_group_range, versions, self._clock
                        )
                    elif (known.description.uid, known.info.state_name) != (uid, info.state_name):
                        raise same_name(known.description, _description(name, uid, backend, info))


def _description(name: str, uid: str, backend: KeyedStateBackend, info: QueryableStateInfo) -> QueryableState:
    state = info.schema.meta_info(info.state_name)
    return QueryableState(name, uid, backend.key_codec.key_type, backend.max_parallelism, state)


def same_name(one: QueryableState, other: QueryableState) -> StateDeclarationError:
    """Return the error for two states with the same queryable name."""
    message = (
        f"Two states are queryable as {one.name!r}: {one.state.name!r} of {one.uid} and {other.state.name!r} of {other.uid}."
    )
    return StateDeclarationError(message, hint="give set_queryable another name for one of them")
