"""The campaign of `campaign.py`, short, and as long as `--campaign-kills` says."""

from __future__ import annotations

import pytest

from tests.faults.campaign import HEADER, run_campaign
from tests.faults.processes import needs_proc

pytestmark = needs_proc


def check(report):
    print(f"\n{HEADER}\n{report.to_markdown()}")
    assert (report.lost, report.doubled) == (0, 0), report
    assert report.restarts > 0, report


@pytest.mark.slow  # tests/faults/test_killed_workers.py and test_broken_shuffles.py have each kind of damage alone
@pytest.mark.timeout(600)
def test_the_campaign_in_short(run_job, spark, tmp_path):
    check(run_campaign(run_job, spark, tmp_path, kills=7, seed=1))


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_the_campaign_at_length(run_job, spark, tmp_path, request):
    option = request.config.getoption
    kills, seed, backend = (option(f"--campaign-{name}") for name in ("kills", "seed", "backend"))
    check(run_campaign(run_job, spark, tmp_path, kills=kills, seed=seed, backend=backend))
