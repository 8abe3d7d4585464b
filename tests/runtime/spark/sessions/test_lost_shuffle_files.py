"""Shuffle files that vanish on one machine: Spark takes its only executor for lost, and the JVM has to outlive that."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOSES_SHUFFLE_FILES = """
import sys
import time
from pathlib import Path

from pystate.common.configuration.configuration import Configuration
from pystate.runtime.spark.sessions.session import create_session

HEARTBEATS = 70  # Spark's own bound is 60
folder = Path(sys.argv[1])
options = {
    "pystate.spark.master": "local[2,4]",
    "spark.local.dir": str(folder / "local"),
    "spark.executor.heartbeatInterval": "100ms",
}
spark = create_session(Configuration(options), "lost files", folder / "spark.log")
context = spark.sparkContext
sums = context.parallelize(range(100), 2).map(lambda number: (number % 5, number)).reduceByKey(lambda a, b: a + b, 2)
print(sums.count())
files = [*(folder / "local").rglob("shuffle_*")]
for file in files:
    file.unlink()
print(bool(files), sums.count())
jvm, deadline = context._gateway.proc, time.monotonic() + 240
while jvm.poll() is None and (folder / "spark.log").read_text().count("Issue communicating with driver") < HEARTBEATS:
    assert time.monotonic() < deadline
    time.sleep(0.2)
print(jvm.poll(), spark.range(10).count())
"""


@pytest.mark.slow
def test_the_jvm_outlives_lost_shuffle_files(tmp_path):
    words = [sys.executable, "-c", LOSES_SHUFFLE_FILES, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout.split("\n")) == (0, ["5", "True 5", "None 10", ""]), done.stderr
