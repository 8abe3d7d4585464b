"""Operator state in jobs on real Spark: a buffering sink that is restarted at other parallelisms."""

import io
import os
import random

from pystate.common import Duration, Types
from pystate.core.snapshot.metadata_file import read_metadata
from pystate.core.snapshot.storage.snapshot_location import resolve_snapshot
from pystate.core.state.operator.format import OperatorStateReader
from pystate.core.state.values.serializers import serializer_for
from pystate.datastream import (
    CheckpointedFunction,
    CheckpointListener,
    ListStateDescriptor,
    SinkFunction,
    StreamExecutionEnvironment,
)
from pystate.datastream.connectors.file_system import FileSource, StreamFormat
from tests.engines import slowly_on_real_time

BUFFERED = ListStateDescriptor("buffered", Types.LONG())


class BufferingSink(SinkFunction, CheckpointedFunction, CheckpointListener):
    """Writes ten numbers in one line, keeps the rest; notes which checkpoints completed."""

    def __init__(self, path):
        self.path = path
        self.buffered = []

    def append(self, suffix, line):
        descriptor = os.open(self.path + suffix, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.write(descriptor, f"{line}\n".encode())
        os.close(descriptor)

    def initialize_state(self, context):
        self.state = context.get_operator_state_store().get_list_state(BUFFERED)
        self.buffered = list(self.state.get())
        self.append(".restored", f"{context.get_restored_checkpoint_id()} {len(self.buffered)}")

    def invoke(self, value, context):
        self.append(".invoked", value)
        self.buffered.append(value)
        if len(self.buffered) == 10:
            self.append("", " ".join(map(str, self.buffered)))
            self.buffered = []

    def snapshot_state(self, context):
        self.state.update(self.buffered)

    def notify_checkpoint_complete(self, checkpoint_id):
        self.append(".complete", checkpoint_id)


def numbers_in(path):
    return [int(number) for number in path.read_text().split()] if path.exists() else []


def buffered_in(savepoint):
    """Return the numbers that a savepoint holds, without a job; each subtask's alone."""
    location = resolve_snapshot(savepoint)
    metadata = read_metadata(location.read_metadata(), location.uri)
    (operator,) = (one for one in metadata.operators if one.uid == "sink")
    serializer, found = serializer_for(Types.LONG()), []
    for subtask in operator.subtasks.values():
        for handle in subtask.operator_state:
            with location.open(handle.handle) as file:
                reader = OperatorStateReader(io.BytesIO(file.read()))
                count = handle.states["buffered"].count
                found.append([serializer.deserialize(item) for (item,) in reader.entries("buffered", 0, count)])
    return found


@slowly_on_real_time
def test_a_buffering_sink_loses_and_doubles_nothing_over_restarts_at_other_parallelisms(run_job, tmp_path):
    folder, out = tmp_path / "numbers", tmp_path / "out"
    folder.mkdir()
    order = random.Random(3)

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder))
        source = files.monitor_continuously(Duration.of_seconds(1)).set_max_files_per_epoch(3).build()
        numbers = env.from_source(source, None, "numbers").map(lambda line: int(line), output_type=Types.LONG())
        numbers.add_sink(BufferingSink(str(out))).uid("sink")
        env.execute("buffering sink")

    path, written, checkpoints = None, 0, []
    for parallelism in (2, 3, 1):
        mine = list(range(written, written + 97))
        order.shuffle(mine)
        for part in range(5):
            name = folder.with_name("part")
            name.write_text("\n".join(map(str, mine[part::5])))
            name.rename(folder / f"{written}-{part}.txt")
        written += 97
        options = {"parallelism.default": str(parallelism)}
        if path is not None:
            options["execution.state-recovery.path"] = path
        job = run_job(program, options)
        job.wait_for(lambda count=written: len(numbers_in(out.with_name("out.invoked"))) == count)
        path = job.savepoint(tmp_path / "savepoints", stop=True)
        job.result()
        kept = buffered_in(path)
        everything = numbers_in(out) + [number for buffered in kept for number in buffered]
        assert sorted(everything) == list(range(written))
        location = resolve_snapshot(path)
        checkpoints.append(read_metadata(location.read_metadata(), location.uri).checkpoint_id)
        assert numbers_in(out.with_name("out.complete"))[-parallelism:] == [checkpoints[-1]] * parallelism
    starts = [line.split()[0] for line in out.with_name("out.restored").read_text().splitlines()]
    assert starts == ["None"] * 2 + [str(checkpoints[0])] * 3 + [str(checkpoints[1])]
