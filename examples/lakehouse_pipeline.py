"""Words in files to counts in an Iceberg table, and from there to the latest ones in a Delta table, exactly once.

    pystate run examples/lakehouse_pipeline.py count LAKE INPUT_DIR    append each count to the Iceberg table
    pystate run examples/lakehouse_pipeline.py latest LAKE             follow that table; a Delta table has each word once
    python examples/lakehouse_pipeline.py compact LAKE                 make few files of the Delta table's many small ones

With --once the jobs read what is there, and end. LAKE is a folder: catalog.db and warehouse for Iceberg, latest for Delta.
However often a job fails, is rescaled, stopped and resumed: the Iceberg table has 1, 2, 3, ... for each word, each once.
"""

import re
import sys
from pathlib import Path

from pystate.common import Duration, Row, Types
from pystate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
from pystate.datastream.connectors.delta import DeltaSink
from pystate.datastream.connectors.file_system import FileSource, StreamFormat
from pystate.datastream.connectors.iceberg import IcebergSink, IcebergSource

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


class Newest(KeyedProcessFunction):
    """Lets a count go on that is above those before it: the rows of a table come in no order over its files."""

    def open(self, runtime_context):
        self.best = runtime_context.get_state(ValueStateDescriptor("best", Types.LONG()))

    def process_element(self, value, ctx):
        if value.count > (self.best.value() or 0):
            self.best.update(value.count)
            yield value


def catalog(lake):
    return {"type": "sql", "uri": f"sqlite:///{lake}/catalog.db", "warehouse": f"file://{lake}/warehouse"}


def count(env, lake, source, *, once):
    files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), source)
    if not once:
        files = files.monitor_continuously(Duration.of_seconds(1))
    sink = IcebergSink.for_table("words.counts").with_catalog("lake", catalog(lake)).with_partition_by("truncate(1, word)")
    (
        env.from_source(files.build(), None, "lines")
        .uid("lines")
        .flat_map(WORD.findall, Types.STRING())
        .key_by(lambda word: word, key_type=Types.STRING())
        .process(CountWords(), output_type=COUNTED)
        .uid("count-words")
        .sink_to(sink.build())
        .uid("counts")
    )


def latest(env, lake, *, once):
    table = IcebergSource.for_table("words.counts").with_catalog("lake", catalog(lake)).with_row_type(COUNTED)
    if not once:
        table = table.streaming().monitor_interval(Duration.of_seconds(1))
    (
        env.from_source(table.build(), None, "counts")
        .uid("counts")
        .key_by(lambda row: row.word, key_type=Types.STRING())
        .process(Newest(), output_type=COUNTED)
        .uid("newest")
        .sink_to(DeltaSink.for_table(f"{lake}/latest").with_upsert_by("word").build())
        .uid("latest")
    )


def compact(lake):
    """Make few files of many, which may be done beside the job: readers and jobs that follow the table get no row twice."""
    from deltalake import DeltaTable

    return DeltaTable(f"{lake}/latest").optimize.compact()


def main(action: str, lake: str, *source: str, once: bool) -> None:
    lake = str(Path(lake).absolute())
    if action == "compact":
        done = compact(lake)
        print(f"{done['numFilesRemoved']} files are {done['numFilesAdded']} now")
        return
    Path(lake).mkdir(parents=True, exist_ok=True)
    env = StreamExecutionEnvironment.get_execution_environment()
    if action == "count":
        count(env, lake, *source, once=once)
    else:
        latest(env, lake, once=once)
    env.execute(f"{action} of words")


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--once"]
    main(*words, once="--once" in sys.argv)
