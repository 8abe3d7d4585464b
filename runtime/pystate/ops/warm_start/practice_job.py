"""A small job with the usual parts: files, an exchange, slots, checkpoints. It makes a JVM load what the next job needs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pystate.common.row import Row
from pystate.common.typeinfo import Types
from pystate.core.api.executor import register_executor
from pystate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
from pystate.datastream.connectors.file_system import FileSource, StreamFormat
from pystate.runtime.driver.embedded import LocalExecutor

_FILES = 4
_COUNT = Types.ROW_NAMED(["word", "count"], [Types.STRING(), Types.LONG()])


class CountWords(KeyedProcessFunction):
    """Counts words."""

    def open(self, runtime_context: Any) -> None:
        """Declare the state."""
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context) -> Iterator[Row]:
        """Count a word."""
        del ctx
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        yield Row(word=value, count=count)


def run_practice_job(executor: LocalExecutor, files: Path) -> None:
    """Run the job to its end, with its output on stdout; afterwards this process has no executor.

    Args:
        executor: Runs the job.
        files: The folder to create for its input.

    Raises:
        PystateError: The job failed.
    """
    files.mkdir()
    for number in range(_FILES):
        (files / f"{number}.txt").write_text(f"a\nb\n{number}\n", "utf-8")
    register_executor(executor)
    try:
        env = StreamExecutionEnvironment.get_execution_environment()
        source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(files)).set_max_files_per_epoch(1)
        words = env.from_source(source.build(), None, "words").uid("words")
        words.key_by(lambda word: word, Types.STRING()).process(CountWords(), _COUNT).uid("count").print().uid("print")
        env.execute("practice")
    finally:
        register_executor(None)
