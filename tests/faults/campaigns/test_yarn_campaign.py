"""The campaign of `yarn_campaign.py`, short, and as long as `--campaign-kills` says."""

from __future__ import annotations

import pytest

from tests.engines import on_both_engines
from tests.faults.campaigns.yarn_campaign import FIRST, HEADER, YarnCampaign
from tests.faults.processes import needs_proc

pytestmark = [needs_proc, pytest.mark.slow]


def check(campaign: YarnCampaign, *how: object) -> None:
    try:
        report = campaign.run(*how)
    finally:
        print(f"\n{HEADER}\n{campaign.report.to_markdown()}")
    assert report.lost_and_doubled == (0, 0)
    assert sum(one.restarts for one in report.kills) > 0


@pytest.mark.timeout(1200)
@on_both_engines
def test_the_campaign_in_short(tmp_path, engine):
    check(YarnCampaign(tmp_path, seed=1, engine=engine), len(FIRST), FIRST)


@pytest.mark.timeout(10_800)
def test_the_campaign_at_length(tmp_path, engine, request):
    kills, seed = (request.config.getoption(f"--campaign-{name}") for name in ("kills", "seed"))
    check(YarnCampaign(tmp_path, seed=seed, engine=engine), kills)
