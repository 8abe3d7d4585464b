"""Two sources on Spark of which one falls silent: with idleness it holds nobody up, and takes part again when it goes on."""

from __future__ import annotations

import pytest

from pystate.common import Duration, WatermarkStrategy
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.connectors.file_system import FileSource
from tests.e2e.time.test_event_time import BOUND, SMALL, Folder, Second, expected, windows
from tests.engines import on_both_engines
from tests.faults.workload import Sink


@on_both_engines
@pytest.mark.slow
@pytest.mark.parametrize("has_begun", [False, True])
def test_windows_of_a_union_fire_though_one_source_is_idle(run_job, tmp_path, has_begun):
    """`has_begun`: whether the silent source has had elements before it fell silent."""
    busy, silent, first, second = Folder(tmp_path / "busy"), Folder(tmp_path / "silent"), Sink(), Sink()

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(BOUND)).with_timestamp_assigner(
            Second()
        )
        streams = [
            env.from_source(FileSource(str(folder.path), monitor_interval_ms=200), one, name).uid(name)
            for name, folder, one in (
                ("busy", busy, strategy),
                ("silent", silent, strategy.with_idleness(Duration.of_seconds(1))),
            )
        ]
        windows(streams[0].union(streams[1]), first, second, strategy=False)
        env.execute("an idle source")

    if has_begun:
        silent.add(["s,1000"])
    busy.add(["b,1000", "b,9000"])
    job = run_job(program)

    def fed_until(below):
        """Give the busy source one element after the other, each 100 ms later, until what ends before a time is out."""

        def out():
            time = 9_000 + 100 * busy.files
            busy.add([f"b,{time}"])
            small = expected([line for line in busy.lines + silent.lines if int(line[2:]) < below], below)[0]
            return set(small) <= set(first.rows)

        return out

    job.wait_for(fed_until(6_000))
    # it takes part again: what is behind the watermark is late, and its newest element has a window
    newest = 9_000 + 100 * busy.files
    silent.add(["s,1500", f"s,{newest}"])
    found = ("s", newest // SMALL * SMALL, 1)
    job.wait_for(lambda: found in first.rows or fed_until(9_000)() is None)
    assert not [row for row in first.rows if row[:2] == ("s", 0) and row[2] > 1]
    assert job.status["attempt"] == 0
