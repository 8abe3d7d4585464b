"""A slot whose counts can be queried, as the proxy asks it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pystate.common import Types
from pystate.common.key_groups import key_group_range
from pystate.core.queryable.kv_state_messages import Consistency, QueryableState, StateAnswer, StateRead
from pystate.core.queryable.server.kv_state_registry import KvStateRegistry
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.datastream import KeyedProcessFunction, MapStateDescriptor, ValueStateDescriptor
from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from tests.runtime.slot.harness import MAX_PARALLELISM, UID, SlotHarness

ENABLED = {"queryable-state.enable": "true"}


class Letters(KeyedProcessFunction):
    """Counts per word, and keeps in a map that the count is so: one is always the other's length."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(queryable(ValueStateDescriptor("count", Types.LONG()), "counts"))
        self.marks = runtime_context.get_map_state(
            queryable(MapStateDescriptor("marks", Types.STRING(), Types.LONG()), "marks")
        )

    def process_element(self, value, ctx):
        if value == "poison":
            message = "poisoned"
            raise ValueError(message)
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.marks.put(f"{count:04}", count)
        yield ctx.get_current_key(), count


def queryable(descriptor: Any, name: str) -> Any:
    descriptor.set_queryable(name)
    return descriptor


class QueriedSlot:
    """A slot and its registry."""

    def __init__(self, tmp_path: Path, function: Any = None, **settings: Any) -> None:
        self.folder = tmp_path
        self.slot = SlotHarness(tmp_path, function or Letters(), configuration=ENABLED, **settings)
        self.registry = KvStateRegistry()
        subtask = self.slot.subtask
        assert subtask.versions is not None
        assert subtask.chain.backend is not None
        self.registry.add(UID, subtask.chain.backend, subtask.versions)

    def close(self) -> None:
        self.slot.close()

    def state(self, name: str = "counts") -> QueryableState:
        return next(state for state in self.registry.states() if state.name == name)

    def key(self, word: str) -> bytes:
        return self.slot.codec.encode(self.slot.codec.internal(word))

    def ask(self, word: str, *, name: str = "counts", live: bool = True, **more: Any) -> StateAnswer:
        return self.ask_for([StateRead(name, self.key(word), **more)], live=live)[0]

    def ask_for(self, reads: list[StateRead], *, live: bool = True) -> list[StateAnswer]:
        return self.registry.read(Consistency.LIVE if live else Consistency.CHECKPOINTED, reads)

    def count(self, word: str, *, live: bool = True) -> int | None:
        answer = self.ask(word, live=live)
        return None if answer.value is None else int(self.state().schema.values.deserialize(answer.value))

    def barrier(self, number: int, epoch: int, **more: Any) -> CheckpointBarrier:
        location = SnapshotLocation((self.folder / f"chk-{number}").as_uri())
        location.create()
        return CheckpointBarrier(number, location.uri, 0, 1_000 + number, epoch, **more)

    def ended(self, number: int, *, completed: bool = True) -> None:
        self.slot.subtask.notify(number, completed=completed)


def word_of(index: int, parallelism: int) -> str:
    """Return a word whose key group is one of a subtask's."""
    from pystate.core.state.keys.keys import KeyCodec

    codec, groups = KeyCodec(Types.STRING()), key_group_range(index, parallelism, MAX_PARALLELISM)
    return next(word for word in map(str, range(1_000)) if codec.key_group(word, MAX_PARALLELISM) in groups)
