"""A job that counts words, fed by a folder, with a sink that remembers what it saw."""

from __future__ import annotations

import io
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pystate.common import Types
from pystate.connectors.source import SourceFunction
from pystate.core.snapshot.reading.snapshot_reader import SnapshotReader
from pystate.core.snapshot.storage.snapshot_location import resolve_snapshot
from pystate.core.state.operator.format import OperatorStateReader
from pystate.core.state.values.serializers import serializer_for
from pystate.datastream import (
    CheckpointedFunction,
    CheckpointListener,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    SinkFunction,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from pystate.datastream.connectors.file_system import FileSource
from tests.faults.injection import Faults, Step

COUNTED = Types.TUPLE([Types.STRING(), Types.LONG()])

RECOVERING = {
    "execution.checkpointing.interval": "300 ms",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "20",
    "restart-strategy.fixed-delay.delay": "100 ms",
}


class Count(KeyedProcessFunction):
    """Counts; waits at each element for as long as a file is there.

    Args:
        gate: That file.
        faults: What may befall a process at an element, and at other steps of the slot.
    """

    def __init__(self, gate: Path | None = None, faults: Faults | None = None) -> None:
        self.gate = gate
        self.faults = faults

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        if self.faults is not None:
            self.faults.reached(Step.ELEMENT)
        while self.gate is not None and self.gate.exists():
            self.gate.with_name("entered").touch()
            time.sleep(0.02)
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield ctx.get_current_key(), count


class Tally(Count):
    """Counts, and keeps the same in a list of all counts and in a map of them by their remainder."""

    def open(self, runtime_context):
        super().open(runtime_context)
        self.all = runtime_context.get_list_state(ListStateDescriptor("all", Types.LONG()))
        self.thirds = runtime_context.get_map_state(MapStateDescriptor("thirds", Types.LONG(), Types.LONG()))

    def process_element(self, value, ctx):
        for word, count in super().process_element(value, ctx):
            self.all.add(count)
            self.thirds.put(count % 3, (self.thirds.get(count % 3) or 0) + 1)
            yield word, count


class Keeping(SinkFunction, CheckpointedFunction, CheckpointListener):
    """A sink that keeps all it was given, in operator state."""

    def initialize_state(self, context):
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("kept", COUNTED))
        self.kept = list(self.state.get())

    def invoke(self, value, context):
        self.kept.append(value)

    def snapshot_state(self, context):
        self.state.update(self.kept)

    def notify_checkpoint_complete(self, checkpoint_id):
        """There is nothing to commit; being told is a step at which faults strike."""


class Generator(SourceFunction, CheckpointedFunction):
    """Gives words for ever; its offset is operator state.

    Args:
        name: What stands before each word's dash.
        different: How many different words at most.
        pause_s: How long it waits behind each.
    """

    def __init__(self, name: str, different: int, pause_s: float) -> None:
        self.name = name
        self.different = different
        self.pause_s = pause_s
        self.offset = 0
        self.running = True

    def word_at(self, offset: int) -> str:
        """Return the word with a number."""
        return f"{self.name}-{offset * offset % self.different}"

    def initialize_state(self, context):
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("offset", Types.LONG()))
        self.offset = next(iter(self.state.get()), 0)

    def snapshot_state(self, context):
        self.state.update([self.offset])

    def run(self, ctx):
        while self.running:
            with ctx.get_checkpoint_lock():
                ctx.collect(self.word_at(self.offset))
                self.offset += 1
            time.sleep(self.pause_s)

    def cancel(self):
        self.running = False


class Watched:
    """A folder that files of random words are put into."""

    def __init__(self, root: Path, seed: int = 7) -> None:
        self.folder = root / "watched"
        self.folder.mkdir(parents=True)
        self.random = random.Random(seed)
        self.words: Counter[str] = Counter()
        self.files = 0

    def add(self, files: int = 1, words_per_file: int = 40, different: int = 50) -> None:
        for _ in range(files):
            words = [f"word-{self.random.randrange(different)}" for _ in range(words_per_file)]
            self.words.update(words)
            part = self.folder.with_name("part")
            part.write_text("\n".join(words))
            part.rename(self.folder / f"{self.files:04}.txt")
            self.files += 1

    @property
    def pairs(self) -> set[tuple[str, int]]:
        """What a sink must have seen: every word with every count up to its last."""
        return {(word, n) for word, count in self.words.items() for n in range(1, count + 1)}


class Sink:
    """Remembers the rows and the epochs it was given."""

    def __init__(self) -> None:
        self.rows: Counter[tuple[Any, ...]] = Counter()
        self.epochs: list[int] = []

    def __call__(self, frame: Any, epoch: int) -> None:
        rows = [tuple(row) for row in frame.collect()]
        self.epochs.append(epoch)
        self.rows.update(rows)


def counting(
    watched: Watched,
    sink: Callable[[Any, int], None],
    *,
    gate: Path | None = None,
    files_per_epoch: int = 3,
    faults: Faults | None = None,
    tally: bool = False,
) -> Callable[[], None]:
    """Return the program; with `tally` one with state of all kinds."""

    def run() -> None:
        env = StreamExecutionEnvironment.get_execution_environment()
        source = FileSource(str(watched.folder), monitor_interval_ms=1000, max_files_per_epoch=files_per_epoch)
        words = env.from_source(source, None, "words").key_by(lambda word: word, key_type=Types.STRING())
        counted = words.process((Tally if tally else Count)(gate, faults), COUNTED).uid("count")
        if tally:
            counted.add_sink(Keeping()).uid("kept")
        counted.for_each_batch(sink)
        env.execute("count")

    return run


def state_in(path: str) -> dict[str, int]:
    """Return the counts in a snapshot."""
    return dict(SnapshotReader(path).keyed_entries("count", "count"))


def lost_and_doubled(path: str, words: Counter[str]) -> tuple[int, int]:
    """Compare all state in a snapshot of a tallying job with what one pass over the words gives.

    Returns:
        How many entries are missing, and how many are there that should not be, over all states.
    """
    reader = SnapshotReader(path)

    def entries(name: str) -> Iterator[tuple[str, Any]]:
        return reader.keyed_entries("count", name)

    every = Counter((word, n) for word, count in words.items() for n in range(1, count + 1))
    thirds = Counter((word, n % 3) for word, n in every)
    pairs = [
        (Counter(dict(entries("count"))), words),
        (Counter((word, n) for word, counts in entries("all") for n in counts), every),
        (Counter({(word, third): number for word, (third, number) in entries("thirds")}), thirds),
        (Counter(kept_in(path)), every),
    ]
    return sum((wanted - found).total() for found, wanted in pairs), sum((found - wanted).total() for found, wanted in pairs)


def check_tallies(path: str, words: Counter[str]) -> None:
    """Check that all state in a snapshot of a tallying job is what one pass over the words gives."""
    assert lost_and_doubled(path, words) == (0, 0), "state is neither lost nor doubled"


def kept_in(path: str, uid: str = "kept") -> Iterator[tuple[str, int]]:
    """Yield what a `Keeping` sink has been given, each element once, as a snapshot holds it."""
    serializer, location = serializer_for(COUNTED), resolve_snapshot(path)
    for subtask in SnapshotReader(path).operator(uid).subtasks.values():
        for handle in subtask.operator_state:
            with location.open(handle.handle) as file:
                state = OperatorStateReader(io.BytesIO(file.read()))
                for (item,) in state.entries("kept", 0, handle.states["kept"].count):
                    yield tuple(serializer.deserialize(item))
