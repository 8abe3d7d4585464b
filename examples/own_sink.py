"""A custom exactly-once sink: lines in files that appear in a folder when the checkpoint that contains them is complete.

    pystate run examples/own_sink.py INPUT_DIR OUTPUT_DIR

Reads the lines of text files that arrive in INPUT_DIR, and numbers them in the order of each first word.
"""

import os
import sys
import uuid
from pathlib import Path

from pystate.common import Duration, Types
from pystate.connectors.sink import Committer, CommittingSinkWriter, Sink, SupportsCommitter
from pystate.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment, ValueStateDescriptor
from pystate.datastream.connectors.file_system import FileSource, StreamFormat


class LinesSink(Sink, SupportsCommitter):
    def __init__(self, folder):
        self.folder = Path(folder)  # settings only: the sink is pickled into the slots

    def create_writer(self, context):
        return LinesWriter(self.folder)

    def create_committer(self, context):
        return LinesCommitter(self.folder)


class LinesWriter(CommittingSinkWriter):
    def __init__(self, folder):
        self.folder, self.lines = folder, []
        folder.mkdir(parents=True, exist_ok=True)

    def write(self, element, context):
        self.lines.append(str(element))

    def flush(self, end_of_input):
        pass  # nothing is written before prepare_commit

    def prepare_commit(self):
        lines, self.lines = self.lines, []
        if not lines:
            return []
        name = uuid.uuid4().hex
        with (self.folder / f".{name}.pending").open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
            file.flush()
            os.fsync(file.fileno())
        return [name]  # a committer finds the file by it


class LinesCommitter(Committer):
    def __init__(self, folder):
        self.folder = folder

    def commit(self, requests):
        for request in requests:
            name = request.get_committable()
            pending, done = self.folder / f".{name}.pending", self.folder / f"{name}.txt"
            if pending.exists():
                pending.rename(done)
            elif done.exists():
                request.signal_already_committed()
            else:
                request.signal_failed_with_unknown_reason(FileNotFoundError(pending))


class Number(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{ctx.get_current_key()} {count}: {value}"


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), sys.argv[1])
    (
        env.from_source(files.monitor_continuously(Duration.of_seconds(1)).build(), None, "text files")
        .key_by(lambda line: line.partition(" ")[0], key_type=Types.STRING())
        .process(Number(), output_type=Types.STRING())
        .name("number")
        .uid("number")
        .sink_to(LinesSink(sys.argv[2]))
        .name("lines")
        .uid("lines")  # identifies pending committables in later versions of the program: keep it
    )
    env.execute("own sink")


if __name__ == "__main__":
    main()
