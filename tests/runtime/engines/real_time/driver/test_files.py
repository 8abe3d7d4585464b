"""Files as a source on the real-time engine: each line once, whatever fails, and files that come later."""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter

import pytest

from pystate.common import Duration, Types
from pystate.common.job_status import JobStatus
from pystate.datastream.connectors.file_system import FileSource, StreamFormat
from pystate.datastream.formats.json import JsonLinesFormat
from tests.runtime.engines.real_time.driver.jobs import RealTimeJob
from tests.runtime.engines.real_time.driver.programs import slow_lines
from tests.waiting import wait_until


@pytest.fixture
def job(tmp_path):
    made = []

    def make(name, program, **options):
        made.append(RealTimeJob(tmp_path / (name * 8), program, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def write(folder, files, lines, first=0):
    folder.mkdir(exist_ok=True)
    for number in range(first, first + files):
        hidden = folder / f".{number}"
        hidden.write_text("".join(f"{number}-{line}\n" for line in range(lines)))
        hidden.rename(folder / f"{number}.txt")


def counted(text):
    """Return the highest count that was printed of each line."""
    found = Counter()
    for line, count in re.findall(r"\((\d+-\d+),(\d+)\)", text):
        found[line] = max(found[line], int(count))
    return found


def each_once(text, files, lines):
    assert counted(text) == {f"{number}-{line}": 1 for number in range(files) for line in range(lines)}


def test_a_killed_slot_reads_no_line_twice_and_none_never(job, tmp_path, capsys):
    write(tmp_path / "in", 7, 900)
    gate = tmp_path / "gate"
    one = job("a", slow_lines(str(tmp_path / "in"), 0.01, gate=str(gate)))
    one.await_checkpoints()
    one.kill_slot(0)
    one.await_attempt(1)
    one.await_checkpoints()
    one.kill_slot(1)
    one.await_attempt(2)
    gate.touch()
    assert one.end() is JobStatus.FINISHED
    each_once(capsys.readouterr().out, 7, 900)


def test_a_savepoint_in_the_middle_of_a_file_goes_on_at_another_parallelism(job, tmp_path, capsys):
    write(tmp_path / "in", 3, 1500)
    one = job("a", slow_lines(str(tmp_path / "in"), 0.01), parallelism=2)
    one.await_checkpoints(2)
    path = one.savepoint(stop=True)
    assert one.end() is JobStatus.FINISHED
    before = counted(capsys.readouterr().out)
    assert 0 < len(before) < 4500
    two = job("b", slow_lines(str(tmp_path / "in"), 0), parallelism=1, **{"execution.state-recovery.path": path})
    assert two.end() is JobStatus.FINISHED
    after = counted(capsys.readouterr().out)
    assert max(after.values()) == 1
    assert len(after) + len(before) == 4500


def test_files_that_come_later_are_read_once(job, tmp_path, capsys):
    write(tmp_path / "in", 2, 10)
    seen = []

    def total():
        seen.append(capsys.readouterr().out)
        return len(counted("".join(seen)))

    one = job("a", slow_lines(str(tmp_path / "in"), 0, interval_ms=50))
    wait_until(lambda: total() == 20)
    write(tmp_path / "in", 3, 10, first=2)
    os.utime(tmp_path / "in" / "3.txt", (1, 1))  # an old file that was moved there
    wait_until(lambda: total() == 50)
    one.await_checkpoints()
    one.kill_slot(0)
    one.await_attempt(1)
    write(tmp_path / "in", 1, 10, first=5)
    wait_until(lambda: total() == 60)
    path = one.savepoint(stop=True)
    assert one.end() is JobStatus.FINISHED
    write(tmp_path / "in", 1, 10, first=6)
    two = job("b", slow_lines(str(tmp_path / "in"), 0, interval_ms=50), **{"execution.state-recovery.path": path})
    wait_until(lambda: total() == 70)
    two.close()
    each_once("".join([*seen, capsys.readouterr().out]), 7, 10)


def test_lines_of_a_file_stay_in_order_and_files_come_as_they_were_written(job, tmp_path, capsys):
    write(tmp_path / "in", 4, 700)
    for number in range(4):
        at = time.time() - number
        os.utime(tmp_path / "in" / f"{number}.txt", (at, at))

    def program(environment):
        environment.read_text_file(str(tmp_path / "in")).print()

    assert job("a", program, parallelism=1).end() is JobStatus.FINISHED
    expected = [f"{number}-{line}" for number in reversed(range(4)) for line in range(700)]
    assert capsys.readouterr().out.split() == expected


def test_event_time_is_that_of_a_column(job, tmp_path, capsys):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.json").write_text("".join(json.dumps({"k": f"k{at % 2}", "at": at}) + "\n" for at in range(0, 50_000, 10)))
    from tests.runtime.engines.real_time.driver.programs import per_ten_seconds

    source = FileSource.for_record_stream_format(
        JsonLinesFormat.for_row_type(Types.ROW_NAMED(["k", "at"], [Types.STRING(), Types.LONG()])), str(folder)
    ).build()
    assert job("a", per_ten_seconds(source)).end() is JobStatus.FINISHED
    counts = re.findall(r"\((k0),(\d+)\)", capsys.readouterr().out)
    assert [int(count) for _, count in counts] == [1000] * 5


def test_a_bad_line_fails_the_job_with_the_place(job, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "bad.json").write_text('{"a":1}\n{"a":"x"}\n')
    source = FileSource.for_record_stream_format(
        JsonLinesFormat.for_row_type(Types.ROW_NAMED(["a"], [Types.LONG()])), str(folder)
    ).build()

    def program(environment):
        environment.from_source(source, None, "lines").print()

    one = job("a", program, **{"restart-strategy.type": "none"})
    with pytest.raises(Exception, match=r"bad\.json.*no such row of JSON.*'x' is not an integer"):
        one.end()


def test_a_folder_that_is_not_there_fails_the_job(job, tmp_path):
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path / "gone")).build()

    def program(environment):
        environment.from_source(source, None, "lines").print()

    with pytest.raises(Exception, match="Path does not exist"):
        job("a", program, **{"restart-strategy.type": "none"}).end()


def test_a_watched_source_has_no_end(tmp_path):
    source = (
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path))
        .monitor_continuously(Duration.of_seconds(1))
        .build()
    )
    assert source.in_slots(None, "lines")[0].get_boundedness().name == "CONTINUOUS_UNBOUNDED"
