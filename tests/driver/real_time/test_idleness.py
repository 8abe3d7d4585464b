"""Who falls silent holds nobody up, without anything else that would wake his subtask."""

from __future__ import annotations

import pytest

from tests.driver.real_time.idle_programs import one_falls_silent
from tests.driver.real_time.jobs import RealTimeJob
from tests.waiting import wait_until


@pytest.mark.parametrize("behind_a_shuffle", [False, True])
def test_windows_fire_beside_a_source_that_has_fallen_silent(tmp_path, capsys, behind_a_shuffle):
    program = one_falls_silent(behind_a_shuffle=behind_a_shuffle)
    options = {"execution.checkpointing.interval": "1 h", "pipeline.auto-generate-uids": "true"}
    job = RealTimeJob(tmp_path / ("j" * 8), program, parallelism=1, **options)
    printed = []

    def fired():
        printed.append(capsys.readouterr().out)
        return "window 10000 2" in "".join(printed)

    try:
        wait_until(lambda: job.error is not None or fired(), 30)
        assert job.error is None
    finally:
        job.close()
