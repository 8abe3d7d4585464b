"""A savepoint of one engine goes on in the other: each file and each element of a collection once, counted exactly."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter

import pytest

from pystate.common import Types
from pystate.common.errors import PystateError
from pystate.datastream import KeyedProcessFunction, MapFunction, StreamExecutionEnvironment
from pystate.datastream.connectors.file_system import FileSource
from pystate.datastream.state import ValueStateDescriptor

pytestmark = pytest.mark.slow

LINES = 300
FILES = 30
PADDING = " " * 8_000  # so that not all of it is on its way at once
ENGINES = {"micro": "micro-batch", "real": "real-time"}


class Seen:
    """What `for_each_batch` has brought: of each element how often it came, as its state counts."""

    def __init__(self):
        self.counts = Counter()

    def __call__(self, frame, epoch):
        for row in frame.collect():
            self.counts[row[0]] = max(self.counts[row[0]], row[1])


class Slowly(MapFunction):
    def __init__(self, seconds):
        self.seconds = seconds

    def map(self, value):
        time.sleep(self.seconds)
        return value.rstrip()


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield value, self.count.value()


def itself(value):
    return value


def write(folder, files, first=0):
    folder.mkdir(exist_ok=True)
    for number in range(first, first + files):
        hidden = folder / f".{number}"
        hidden.write_text("".join(f"{number}-{line}{PADDING}\n" for line in range(LINES)))
        hidden.rename(folder / f"{number} ä%20.txt")


def expected(files, elements):
    lines = {f"{number}-{line}" for number in range(files) for line in range(LINES)}
    return dict.fromkeys(lines | {f"element {number}" for number in range(elements)}, 1)


def counting(folder, elements, seen, seconds=0.006, bounded=False):
    """Return the program: lines of files and elements of a collection, each counted."""

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        source = FileSource(str(folder), None if bounded else 100, max_files_per_epoch=1)
        lines = env.from_source(source, None, "files").uid("files")
        collection = env.from_collection([f"element {number}" for number in range(elements)], Types.STRING())
        both = lines.union(collection.uid("collection")).map(Slowly(seconds), Types.STRING())
        counted = both.key_by(itself, Types.STRING()).process(Count(), Types.TUPLE([Types.STRING(), Types.LONG()]))
        counted.uid("count").for_each_batch(seen)
        env.execute("between engines")

    return program


def options(engine, path=None):
    found = {"execution.engine": ENGINES[engine], "execution.checkpointing.interval": "200 ms"}
    return found if path is None else {**found, "execution.state-recovery.path": path}


@pytest.mark.parametrize("engines", [("micro", "real", "micro"), ("real", "micro", "real"), ("real", "micro", "micro")])
def test_each_line_and_element_counts_once_over_three_jobs(run_job, tmp_path, engines):
    seen = Seen()
    folder, path = tmp_path / "in", None
    write(folder, FILES)
    for engine in engines[:2]:
        before = len(seen.counts)
        job = run_job(counting(folder, 300, seen), options(engine, path))
        job.wait_for(lambda least=before + 100: len(seen.counts) > least)
        path = job.savepoint(tmp_path / "savepoints", stop=True)
        job.result()
        in_epochs = engine == "micro"  # one takes all that can be read in half a second
        assert in_epochs or len(seen.counts) < len(expected(FILES, 300)), "it was stopped too late to tell"
        assert set(seen.counts.values()) == {1}
    write(folder, 2, first=FILES)
    last = run_job(counting(folder, 350, seen, 0, bounded=True), options(engines[2], path))
    last.result()
    assert seen.counts == expected(FILES + 2, 350)


def test_a_source_that_stays_in_slots_does_so_after_a_failure_and_a_checkpoint_of_its_own(run_job, tmp_path, capsys):
    seen = Seen()
    folder = tmp_path / "in"
    write(folder, 4)
    first = run_job(counting(folder, 500, seen), options("real"))
    first.wait_for(lambda: len(seen.counts) > 100)
    path = first.savepoint(tmp_path / "savepoints", stop=True)
    first.result()
    retry = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "0 s"}
    job = run_job(counting(folder, 500, seen), {**options("micro", path), **retry})
    job.wait_for(lambda: job.master.coordinator.statistics()["counts"]["completed"] > 1)
    os.kill(job.master.slot_pids[0], signal.SIGKILL)
    job.wait_for(lambda: len(seen.counts) == 4 * LINES + 500)
    assert seen.counts == expected(4, 500)
    assert "The source 'Collection Source' goes on in slots" in capsys.readouterr().err
    job.cancel()


def test_what_one_engine_has_read_and_the_other_cannot_is_refused(run_job, tmp_path):
    folder = tmp_path / "in"
    write(folder, 2)
    seen = Seen()

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        frame = env.spark.readStream.text(str(folder))
        rows = env.from_data_frame(frame, "frame").uid("frame").map(lambda row: row[0].rstrip(), Types.STRING())
        rows.key_by(itself, Types.STRING()).process(Count(), Types.TUPLE([Types.STRING(), Types.LONG()])).uid(
            "count"
        ).for_each_batch(seen)
        env.execute("frames")

    job = run_job(program, options("micro"))
    job.wait_for(lambda: len(seen.counts) == 2 * LINES)
    path = job.savepoint(tmp_path / "savepoints", stop=True)
    job.result()

    def own(uid):
        def run():
            env = StreamExecutionEnvironment.get_execution_environment()
            lines = env.from_source(FileSource(str(folder), 100), None, "lines").uid(uid)
            lines = lines.map(str.rstrip, Types.STRING())
            lines.key_by(itself, Types.STRING()).process(Count(), Types.TUPLE([Types.STRING(), Types.LONG()])).uid(
                "count"
            ).for_each_batch(seen)
            env.execute("lines")

        return run

    refused = run_job(own("lines"), {**options("real", path), "restart-strategy.type": "none"})
    with pytest.raises(PystateError, match="no source 'frame'"):
        refused.result()
