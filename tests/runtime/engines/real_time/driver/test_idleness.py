"""Who falls silent holds nobody up, without anything else that would wake his subtask."""

from __future__ import annotations

import contextlib
import re

import pytest

from pystate.common.job_status import JobStatus
from tests.runtime.engines.real_time.driver.idle_programs import one_falls_silent
from tests.runtime.engines.real_time.driver.jobs import RealTimeJob
from tests.runtime.engines.real_time.driver.programs import slow_lines
from tests.waiting import wait_until


@contextlib.contextmanager
def silent_job(tmp_path, program):
    """A job at parallelism 1 in which no checkpoint comes to wake anybody."""
    options = {"execution.checkpointing.interval": "1 h", "pipeline.auto-generate-uids": "true"}
    job = RealTimeJob(tmp_path / ("j" * 8), program, parallelism=1, **options)
    try:
        yield job
    finally:
        job.close()


def await_print(job, capsys, is_there):
    """Wait until what a job has printed is what is wanted."""
    printed = []

    def has_come():
        printed.append(capsys.readouterr().out)
        return is_there("".join(printed))

    wait_until(lambda: job.error is not None or has_come())
    assert job.error is None


@pytest.mark.parametrize("after_a_shuffle", [False, True])
def test_windows_fire_beside_a_source_that_has_fallen_silent(tmp_path, capsys, after_a_shuffle):
    with silent_job(tmp_path, one_falls_silent(after_a_shuffle=after_a_shuffle)) as job:
        await_print(job, capsys, lambda text: "window 10000 2" in text)


def test_all_of_a_burst_after_a_silence_comes_out_with_nothing_after_it(tmp_path, capsys):
    """A batch is processed in slices, and what came out of the first is handed on before the others."""
    folder = tmp_path / "in"
    folder.mkdir()
    with silent_job(tmp_path, slow_lines(str(folder), 0, 50)) as job:
        wait_until(lambda: job.status.state is JobStatus.RUNNING)
        (tmp_path / "part").write_text("\n".join(f"line-{number}" for number in range(40)))
        (tmp_path / "part").rename(folder / "burst.txt")
        await_print(job, capsys, lambda text: len(set(re.findall(r"line-\d+", text))) == 40)
