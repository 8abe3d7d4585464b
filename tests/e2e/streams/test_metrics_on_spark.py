"""What a job measures on real Spark: in its slots, in the stateless stage before them, and over a restart."""

from pystate.common import Duration
from pystate.datastream import KeyedProcessFunction, MapFunction, StreamExecutionEnvironment, ValueStateDescriptor
from pystate.datastream.connectors.file_system import FileSource, StreamFormat

OPTIONS = {
    "parallelism.default": "2",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "3",
    "restart-strategy.fixed-delay.delay": "10 ms",
}


class Lower(MapFunction):
    """Runs in Spark's Python workers, before the shuffle."""

    def open(self, runtime_context):
        group = runtime_context.get_metrics_group().add_group("words")
        self.seen = group.counter("seen")
        self.lengths = group.distribution("length")

    def map(self, value):
        self.seen.inc()
        self.lengths.update(len(value))
        return value.lower()


class Count(KeyedProcessFunction):
    """Fails at "poison" in the first attempt."""

    def open(self, runtime_context):
        self.state = runtime_context.get_state(ValueStateDescriptor("count"))
        self.poisonous = runtime_context.get_attempt_number() == 0
        group = runtime_context.get_metrics_group()
        self.counted = group.counter("counted")
        self.marks = group.meter("marks")
        self.last = 0
        group.gauge("last", lambda: self.last)

    def process_element(self, value, ctx):
        if value == "poison" and self.poisonous:
            raise ValueError(value)
        self.counted.inc()
        self.marks.mark_event()
        self.last = (self.state.value() or 0) + 1
        self.state.update(self.last)
        yield f"{value} {self.last}"


def program(folder, rows):
    def build():
        env = StreamExecutionEnvironment.get_execution_environment()
        source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder))
        stream = env.from_source(source.monitor_continuously(Duration.of_millis(100)).build())
        counted = stream.map(Lower()).name("lower").key_by(lambda word: word).process(Count()).uid("count").name("count")
        counted.for_each_batch(lambda frame, epoch: rows.extend(row[0] for row in frame.collect()))
        env.execute("metrics")

    return build


def totals(job):
    """Return the sums over all subtasks, by (task, operator, name)."""
    found = {}
    for task in job.master.metrics().tasks:
        for subtask in task.subtasks:
            for sample in subtask.samples:
                operator = task.operator_name(sample)
                for end, value in sample.figures().items():
                    key = (task.name, operator, ".".join(sample.path) + end)
                    found[key] = found.get(key, 0) + value
    return found


def test_slots_and_stages_report_and_system_counters_go_on_over_a_restart(run_job, tmp_path):
    folder, rows = tmp_path / "in", []
    folder.mkdir()
    (folder / "a.txt").write_text("To\nbe\nor\nnot\nto\nbe\n")
    job = run_job(program(folder, rows), {**OPTIONS, "execution.checkpointing.dir": str(tmp_path / "chk")})
    job.wait_for(lambda: totals(job).get(("count", "count", "counted")) == 6)
    job.savepoint(tmp_path / "savepoints")
    job.wait_for(lambda: totals(job).get(("count", None, "lastCheckpointStateSize"), 0) > 0)
    source = next(name for name, _, _ in totals(job) if name.startswith("Source: "))
    # the slots report task by task; a source in slots receives no records from other tasks, as in Flink
    job.wait_for(lambda: totals(job)[source, None, "numRecordsOut"] == totals(job)[source, "lower", "words.seen"] == 6)
    first = totals(job)
    assert first[source, "lower", "words.length_sum"] == 13
    assert first[source, "lower", "words.length_max"] == 3 * len([key for key in first if key[2] == "words.length_max"])
    assert first["count", None, "numRecordsIn"] == first["count", "count", "numRecordsIn"] == 6
    assert first["count", None, "numRecordsOut"] == first["count", "count", "numRecordsOut"] == 6
    assert first["count", None, "numBytesIn"] > 0
    assert first["count", None, "numBytesOut"] > 0
    assert first["count", None, "accumulateIdleTimeMs"] > 0
    assert first["count", "count", "marks_count"] == 6
    assert first["count", "count", "last"] >= 1

    (folder / "b.txt").write_text("Be\npoison\n")
    # each slot reports by itself, so that one may have told of its words when the other hasn't yet
    job.wait_for(lambda: totals(job).get(("count", "count", "counted"), 0) >= 8 and job.status["attempt"] == 1)
    job.wait_for(lambda: len(rows) >= 6 + 8 and totals(job)[source, None, "numRecordsOut"] >= 6 + 2 + 8)
    second = totals(job)
    # without a checkpoint of its own the job begins again from nothing: all eight words once more
    assert second["count", "count", "counted"] == 8
    assert second["count", None, "numRecordsIn"] >= 6 + 8
    assert second["count", None, "numRecordsIn"] >= first["count", None, "numRecordsIn"]
    assert second[source, None, "numRecordsOut"] >= 6 + 2 + 8
    told = {sample.name: sample.value for sample in job.master.metrics().job}
    assert told["numberOfFinishedEpochs"] >= 2
    assert told["lastEpochDuration"] > 0
    assert told["lastFinishedEpoch"] == job.master.engine.progress()["epoch"]
