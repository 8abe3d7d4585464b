"""A source that gets no answer restarts its job, from the first start on, and the job runs once it gets one."""

from __future__ import annotations

import pytest

from pystate.common.errors import ExternalSystemError
from pystate.common.job_status import JobStatus
from tests.runtime.engines.real_time.driver.away_source import reading
from tests.runtime.engines.real_time.driver.jobs import RealTimeJob


def test_a_job_restarts_until_the_other_side_answers(tmp_path, capsys):
    job = RealTimeJob(tmp_path / "job", reading(tmp_path / "asked"), parallelism=1)
    assert job.end() is JobStatus.FINISHED
    assert [line.rpartition(" ")[2] for line in capsys.readouterr().out.splitlines()] == ["1", "2", "3", "4", "5"]
    assert sorted(one.name for one in (tmp_path / "asked").iterdir()) == ["0-check", "1-enumerator", "2-enumerator"]
    failures = job.status.snapshot()["failures"]
    assert [(one["attempt"], one["class"], one["message"]) for one in failures] == [
        (1, "ExternalSystemError", "Nobody answers question 1."),
        (0, "ExternalSystemError", "Nobody answers question 0."),
    ]


def test_without_restarts_the_first_question_ends_the_job(tmp_path):
    options = {"restart-strategy.type": "none"}
    job = RealTimeJob(tmp_path / "job", reading(tmp_path / "asked"), parallelism=1, **options)
    with pytest.raises(ExternalSystemError, match="Nobody answers question 0"):
        job.end()
    assert job.status.state is JobStatus.FAILED
