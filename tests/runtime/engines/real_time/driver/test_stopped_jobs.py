"""After the savepoint of a stop nothing comes out that a start from it would give once more."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from pystate.common.errors import PystateError, SnapshotError
from pystate.common.job_status import JobStatus
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from tests.runtime.engines.real_time.driver.jobs import RealTimeJob
from tests.runtime.engines.real_time.driver.stop_programs import COUNT, KEYS, ticks_and_answers, written
from tests.waiting import wait_until


@pytest.fixture
def job(tmp_path):
    made = []

    def make(name, **options):
        made.append(RealTimeJob(tmp_path / (name * 8), ticks_and_answers(str(tmp_path / "out")), **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.parametrize("interval", ["30 ms", None])
def test_nothing_comes_out_after_the_savepoint_of_a_stop(job, tmp_path, monkeypatch, interval):
    write = SnapshotLocation.write_metadata

    def slowly(location, data):
        if "/sp/" in location.uri:
            time.sleep(0.5)  # the clock goes on meanwhile, calls come back, and checkpoints are due
        write(location, data)

    monkeypatch.setattr(SnapshotLocation, "write_metadata", slowly)
    folder, path = tmp_path / "out", None
    for name in "ab":
        one = job(name, **{"execution.checkpointing.interval": interval, "execution.state-recovery.path": path})
        come = len(written(folder))
        # the answers come by themselves: those of one subtask may all be behind many ticks
        wait_until(
            lambda job=one, come=come: (
                job.error is not None or (len(lines := written(folder)) > come + 500 and len(_numbers(lines)) == KEYS + 2)
            ),
        )
        path = one.savepoint(stop=True, drain=name == "b")
        assert one.end() is JobStatus.FINISHED
    lines = Counter(written(folder))
    assert [line for line, count in lines.items() if count > 1] == []
    seen = _numbers(lines)
    assert len(seen) == KEYS + 2  # each of two subtasks of the source has one half
    for what, numbers in seen.items():
        assert numbers == {*range(min(numbers), max(numbers) + 1)}, what
        assert min(numbers) in (0, 1, COUNT // 2)


def test_a_job_goes_on_after_the_savepoint_of_a_stop_that_has_failed(job, tmp_path, monkeypatch):
    write, folder = SnapshotLocation.write_metadata, tmp_path / "out"

    def refuse(location, data):
        if "/sp/" in location.uri:
            message = "no room"
            raise SnapshotError(message)
        write(location, data)

    one = job("a")
    one.await_checkpoints()
    with monkeypatch.context() as patched:
        patched.setattr(SnapshotLocation, "write_metadata", refuse)
        with pytest.raises(PystateError, match="no room"):
            one.savepoint(stop=True)
    come = _kinds(folder)
    wait_until(lambda: all(count > come[what] + 50 for what, count in _kinds(folder).items()))
    one.await_checkpoints()
    one.savepoint(stop=True)
    assert one.end() is JobStatus.FINISHED


def _kinds(folder):
    return Counter(line.split()[0] for line in written(folder))


def _numbers(lines):
    """Return the numbers by what they are of."""
    seen = {}
    for line in lines:
        *what, number = line.split()
        seen.setdefault((*what, int(number) // (COUNT // 2)), set()).add(int(number))
    return seen
