"""Event time in jobs on real Spark some of whose sources are at their end while others go on."""

from __future__ import annotations

import pytest

from pystate.common import Duration, WatermarkStrategy
from pystate.common.errors import JobCancelledError
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.connectors.file_system import FileSource
from tests.e2e.time.test_event_time import BOUND, WORD, Folder, Second, expected, random_lines, windows
from tests.engines import on_both_engines
from tests.faults.workload import RECOVERING, Sink

BOUNDED = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(BOUND)).with_timestamp_assigner(Second())


def program(lines, folder, first, second):
    def run():
        env = StreamExecutionEnvironment.get_execution_environment()
        collection = env.from_collection(lines, WORD).uid("ended")
        ended = collection.assign_timestamps_and_watermarks(BOUNDED).uid("times of ended")
        source = FileSource(str(folder.path), monitor_interval_ms=300, max_files_per_epoch=1)
        live = env.from_source(source, BOUNDED, "live").uid("live").set_parallelism(1)
        windows(ended.union(live), first, second, strategy=False)
        env.execute("a source that ends")

    return run


@pytest.mark.slow
@on_both_engines
@pytest.mark.timeout(600)
def test_a_collection_that_is_read_holds_event_time_up_no_more_also_after_a_restore(run_job, tmp_path, engine):
    lines, folder, first, second = random_lines(5, 60, 0, 4_000), Folder(tmp_path), Sink(), Sink()

    def out(below):
        small, large = expected([*lines, *folder.lines], below)
        return lambda: set(small) <= set(first.rows) and set(large) <= set(second.rows)

    folder.add([*random_lines(6, 40, 0, 9_000), "w1,13000"])  # the watermark is 9,999
    job = run_job(program(lines, folder, first, second), RECOVERING)
    job.wait_for(out(10_000))
    path = job.savepoint(tmp_path / "savepoints", cancel=True)
    with pytest.raises(JobCancelledError):
        job.result()
    assert (first.rows, second.rows) == expected([*lines, *folder.lines], 10_000)
    folder.add(["w2,10000", "w1,30000"])
    resumed = run_job(program(lines, folder, first, second), {"execution.state-recovery.path": path, **RECOVERING})
    resumed.wait_for(out(26_000))
    resumed.cancel()
    assert (first.rows, second.rows) == expected([*lines, *folder.lines], 26_000)
