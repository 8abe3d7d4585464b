"""The campaign of `campaign.py`, short, and as long as `--campaign-kills` says."""

from __future__ import annotations

import pytest

from tests.engines import on_both_engines
from tests.faults.campaigns.campaign import HEADER, Campaign
from tests.faults.processes import needs_proc

pytestmark = needs_proc


def check(report):
    print(f"\n{HEADER}\n{report.to_markdown()}")
    assert (report.lost, report.doubled) == (0, 0), report
    assert report.restarts > 0, report


@pytest.mark.slow  # tests/faults/test_killed_workers.py and test_broken_shuffles.py have each kind of damage alone
@pytest.mark.timeout(900)
@on_both_engines
def test_the_campaign_in_short(run_job, spark, tmp_path, engine):
    check(Campaign(run_job, spark, tmp_path, seed=1, engine=engine).run(7, turn_every=4))


@pytest.mark.slow
@pytest.mark.timeout(10_800)
def test_the_campaign_at_length(run_job, spark, tmp_path, engine, request):
    option = request.config.getoption
    kills, seed, backend, turns = (option(f"--campaign-{name}") for name in ("kills", "seed", "backend", "turn-every"))
    check(Campaign(run_job, spark, tmp_path, seed=seed, engine=engine, backend=backend).run(kills, turns))
