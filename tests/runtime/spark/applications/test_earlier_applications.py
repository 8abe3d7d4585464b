"""Applications that earlier drivers have left with a standalone master, which can't know by itself that they are dead."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.e2e.clusters.spark_cluster import ROOT, Cluster
from tests.waiting import LONGEST_S

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

APPLICATION = """
import json, sys
from pyspark.sql import SparkSession
from pystate.runtime.spark.applications.earlier_applications import end_earlier_applications

master, name, ends = sys.argv[1:]
builder = SparkSession.builder.master(master).appName(name).config("spark.driver.host", "127.0.0.1")
spark = builder.config("spark.ui.enabled", "false").getOrCreate()
said = []
if ends:
    end_earlier_applications(spark, said.append)
    end_earlier_applications(spark, said.append)
print(json.dumps([spark.sparkContext.applicationId, *said]), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def master(tmp_path):
    made = Cluster(tmp_path / "cluster", [])
    made.start_master()
    yield made
    made.stop()


@pytest.fixture
def start(master):
    processes = []

    def application(name: str, *, ends: bool = False) -> list[str]:
        # nothing listens at the second address, as at that of a standby whose machine is down
        command = [sys.executable, "-c", APPLICATION, f"{master.url},127.0.0.1:1", name, "yes" if ends else ""]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=master.environment, cwd=ROOT, text=True
        )
        processes.append(process)
        return json.loads(process.stdout.readline())

    yield application
    for process in processes:
        process.stdin.close()
        process.wait(LONGEST_S)
        process.stdout.close()


def test_those_of_the_same_name_are_ended_once_and_no_others(master, start):
    (earlier,), (other,) = start("pystate 5f0c"), start("pystate 77aa")

    own, *said = start("pystate 5f0c", ends=True)

    assert said == [f"The Spark application {earlier} of an earlier driver is ended, and its cores are free."]
    removed = [line for line in (master.root / "master.log").read_text().splitlines() if "Removing app" in line]
    assert len(removed) == 1
    assert earlier in removed[0]
    assert own != earlier != other
