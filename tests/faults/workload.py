"""A job that counts words, fed by a folder, with a sink that remembers what it saw."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pystate.checkpoint.reader import SnapshotReader
from pystate.common import Types
from pystate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
from pystate.datastream.connectors.file_system import FileSource

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
    """

    def __init__(self, gate: Path | None = None) -> None:
        self.gate = gate

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        while self.gate is not None and self.gate.exists():
            self.gate.with_name("entered").touch()
            time.sleep(0.02)
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield ctx.get_current_key(), count


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
    watched: Watched, sink: Callable[[Any, int], None], *, gate: Path | None = None, files_per_epoch: int = 3
) -> Callable[[], None]:
    """Return the program."""

    def run() -> None:
        env = StreamExecutionEnvironment.get_execution_environment()
        source = FileSource(str(watched.folder), monitor_interval_ms=1000, max_files_per_epoch=files_per_epoch)
        words = env.from_source(source, None, "words")
        words.key_by(lambda word: word, key_type=Types.STRING()).process(Count(gate), COUNTED).uid("count").for_each_batch(
            sink
        )
        env.execute("count")

    return run


def state_in(path: str) -> dict[str, int]:
    """Return the counts in a snapshot."""
    return dict(SnapshotReader(path).keyed_entries("count", "count"))
