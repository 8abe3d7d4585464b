"""The campaign of `kafka_commits_campaign.py`, short, and as long as `--campaign-kills` says."""

from __future__ import annotations

import pytest

from tests.faults.campaigns.kafka_commits_campaign import HEADER, run_commits_campaign


def show(report):
    print(f"\n{HEADER}\n{report.to_markdown()}")


@pytest.mark.parametrize("kills", [2, pytest.param(7, marks=pytest.mark.slow)])
def test_commits_of_killed_processes_are_made_once(kafka, tmp_path, kills):
    show(run_commits_campaign(kafka, kills=kills, seed=3, folder=tmp_path))


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_the_campaign_at_length(kafka, tmp_path, request):
    option = request.config.getoption
    kills, seed = (option(f"--campaign-{name}") for name in ("kills", "seed"))
    show(run_commits_campaign(kafka, kills=kills, seed=seed, folder=tmp_path))
