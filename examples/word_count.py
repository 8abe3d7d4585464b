"""Counts the identifiers in the Python source files of a watched folder.

    pystate run examples/word_count.py INPUT_DIR OUTPUT_DIR [FILES_PER_EPOCH]

Each changed count goes to OUTPUT_DIR, a JSON file per epoch with rows of word and count.
"""

import json
import re
import sys
from pathlib import Path

from pystate.common import Duration, Row, Types
from pystate.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment, ValueStateDescriptor
from pystate.datastream.connectors.file_system import FileSource, StreamFormat

IDENTIFIER = re.compile(r"[^\W\d]\w*")
COUNT = Types.ROW_NAMED(["word", "count"], [Types.STRING(), Types.LONG()])


class CountWords(KeyedProcessFunction):
    """Emits (word, count so far) for every word."""

    def open(self, runtime_context: RuntimeContext):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield Row(word=value, count=count)


def write_json(folder: Path):
    """Return a sink that writes an epoch's rows atomically to a file named by the epoch's number."""

    def write(frame, epoch):
        rows = [f"{json.dumps([row.word, row['count']])}\n" for row in frame.collect()]
        if rows:
            part = folder / f".{epoch}.part"
            part.write_text("".join(rows), encoding="utf-8")
            part.replace(folder / f"{epoch}.json")

    return write


def main():
    source, target = sys.argv[1], Path(sys.argv[2])
    files_per_epoch = int(sys.argv[3]) if len(sys.argv) > 3 else 50
    target.mkdir(parents=True, exist_ok=True)
    env = StreamExecutionEnvironment.get_execution_environment()
    files = (
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), source)
        .monitor_continuously(Duration.of_seconds(1))
        .set_max_files_per_epoch(files_per_epoch)
        .build()
    )
    counts = (
        env.from_source(files, None, "source files")
        .flat_map(IDENTIFIER.findall, output_type=Types.STRING())
        .key_by(lambda word: word, key_type=Types.STRING())
        .process(CountWords(), output_type=COUNT)
        .name("count words")
        .uid("count-words")
    )
    counts.for_each_batch(write_json(target)).name("JSON files")
    env.execute("word count")


if __name__ == "__main__":
    main()
