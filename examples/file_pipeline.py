"""Files to files, exactly once: numbers the words of text files. The same as `kafka_pipeline.py`, without a broker.

    pystate run examples/file_pipeline.py INPUT_DIR OUTPUT_DIR           watch INPUT_DIR, until the job is stopped
    pystate run examples/file_pipeline.py INPUT_DIR OUTPUT_DIR --once    read what is there, and end

Each word is written with its count so far: as lines of JSON in OUTPUT_DIR/lines, and as Parquet files in
OUTPUT_DIR/parquet. A file appears when the checkpoint that contains it is complete. However often the job fails, is
rescaled, stopped and resumed: a reader finds 1, 2, 3, ... for each word, each once.
"""

import json
import re
import sys

from pystate.common import Duration, Encoder, Row, Types
from pystate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
from pystate.datastream.connectors.file_system import (
    FileSink,
    FileSource,
    OutputFileConfig,
    RollingPolicy,
    StreamFormat,
)
from pystate.datastream.formats.parquet import ParquetBulkWriters

WORD = re.compile(r"\w+")
COUNTED = Types.ROW_NAMED(["word", "count"], [Types.STRING(), Types.LONG()])


class CountWords(KeyedProcessFunction):
    """Counts each word."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield Row(word=value, count=count)


def lines_sink(folder):
    """Return a sink that writes strings as lines, into files that are rolled at each checkpoint."""
    return (
        FileSink.for_row_format(folder, Encoder.simple_string_encoder())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .with_output_file_config(OutputFileConfig.builder().with_part_prefix("counts").with_part_suffix(".json").build())
        .build()
    )


def parquet_sink(folder):
    """Return a sink that writes rows to Parquet files."""
    files = OutputFileConfig.builder().with_part_prefix("counts").with_part_suffix(".parquet").build()
    return FileSink.for_bulk_format(folder, ParquetBulkWriters.for_row_type(COUNTED)).with_output_file_config(files).build()


def main(source: str, target: str, *, once: bool) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), source)
    if not once:
        files = files.monitor_continuously(Duration.of_seconds(1))
    words = env.from_source(files.build(), None, "text files").uid("text-files")
    words = words.flat_map(lambda line: WORD.findall(line.lower()), output_type=Types.STRING()).name("words")
    counted = words.key_by(lambda word: word, key_type=Types.STRING()).process(CountWords(), COUNTED).uid("count")
    lines = counted.map(lambda row: json.dumps([row.word, row["count"]]), output_type=Types.STRING())
    lines.sink_to(lines_sink(f"{target}/lines")).name("lines").uid("lines")
    counted.sink_to(parquet_sink(f"{target}/parquet")).name("parquet").uid("parquet")
    env.execute("file pipeline")


if __name__ == "__main__":
    arguments = [word for word in sys.argv[1:] if word != "--once"]
    if len(arguments) != 2:
        sys.exit("usage: file_pipeline.py INPUT_DIR OUTPUT_DIR [--once]")
    main(*arguments, once="--once" in sys.argv)
