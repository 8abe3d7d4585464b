"""The campaign of `kafka_campaign.py`, short, and as long as `--campaign-kills` says."""

from __future__ import annotations

import pytest

from tests.faults.campaigns.kafka_campaign import HEADER, run_kafka_campaign
from tests.faults.processes import needs_proc
from tests.servers.kafka_broker import spark_jars

pytestmark = [
    needs_proc,
    pytest.mark.skipif(not spark_jars(), reason="there is no connector of Spark's to Kafka here: run `make servers`"),
]


def show(report):
    print(f"\n{HEADER}\n{report.to_markdown()}")
    assert report.restarts > 0, report


@pytest.mark.slow  # tests/faults/campaigns/test_pairs_campaign.py has kills in short between Kafka and each sink
def test_each_kind_of_kill_once(kafka, run_job, spark):
    show(run_kafka_campaign(run_job, spark, kafka, kills=4, seed=1))


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_the_campaign_at_length(kafka, run_job, spark, request):
    option = request.config.getoption
    kills, seed = (option(f"--campaign-{name}") for name in ("kills", "seed"))
    show(run_kafka_campaign(run_job, spark, kafka, kills=kills, seed=seed))
