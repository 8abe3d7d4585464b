"""Samples of a job that ends."""

from __future__ import annotations

from typing import Any

from pystate.runtime.rest.checkpoint_messages import CheckpointingStatistics
from pystate.runtime.rest.own_job_messages import JobProgress
from pystate_cli.sampling.job_sampler import JobSampler
from tests.cli.views.test_run_view import NOW, progress
from tests.rest_messages import message

NOT_KNOWN = {"epoch": None, "records-in": None, "records-out": None}


class Scripted:
    """A job manager that gives one answer after the other, and then ends the sampler."""

    def __init__(self, *answers: JobProgress) -> None:
        self._answers = list(answers)
        self.sampler = JobSampler(self, "a" * 32)  # type: ignore[arg-type]

    def get(self, _path: str, kind: type) -> Any:
        if kind is CheckpointingStatistics:
            return message(CheckpointingStatistics, {})
        if len(self._answers) == 1:
            self.sampler.stop()
        return self._answers.pop(0)

    def latest(self) -> JobProgress:
        self.sampler.run()
        assert self.sampler.latest is not None
        return self.sampler.latest.progress


def test_the_last_figures_of_a_job_that_has_finished_stay():
    last = Scripted(progress(watermark=7), progress(state="FINISHED", **{"end-time": NOW}, **NOT_KNOWN)).latest()
    assert (last.state.value, last.epoch, last.records_in, last.records_out) == ("FINISHED", 42, 1_234_567, 99)
    assert (last.watermark, last.end_time) == (7, NOW)


def test_figures_of_a_job_that_starts_again_are_not_those_of_before():
    last = Scripted(progress(), progress(state="RESTARTING", **NOT_KNOWN)).latest()
    assert (last.epoch, last.records_in, last.records_out) == (None, None, None)
