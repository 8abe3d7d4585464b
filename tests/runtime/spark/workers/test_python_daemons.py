"""Spark's daemon of Python workers, lost half way through its start.

In a process of its own: a session that it is not mended in runs no Python any more, and in one that other jobs have used, a
worker of theirs can come back at any time and do without the daemon.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

LOSES_ITS_DAEMON = """
import sys
from pathlib import Path

from py4j.protocol import Py4JJavaError

from pystate.common.configuration.configuration import Configuration
from pystate.runtime.spark.java_fields import private_field
from pystate.runtime.spark.workers.python_daemons import _FACTORY, PythonDaemons
from pystate.runtime.spark.sessions.real_time_settings import application_settings
from pystate.runtime.spark.sessions.session import create_session

folder = Path(sys.argv[1])
options = {"pystate.spark.master": "local[1]", "spark.local.dir": str(folder / "local"), **application_settings()}
spark = create_session(Configuration(options), "lost daemon", folder / "spark.log")


def count():
    return spark.sparkContext.parallelize([1, 2, 3], 1).map(lambda number: 2 * number).sum()


daemons = PythonDaemons(spark)
print("at first", count(), daemons.revive())
lost = 0
for factory in daemons.factories():
    idle = private_field(spark.sparkContext, _FACTORY, "idleWorkers").get(factory)
    while not idle.isEmpty():
        factory.stopWorker(idle.dequeue())
    if private_field(spark.sparkContext, _FACTORY, "daemon").get(factory) is not None:
        private_field(spark.sparkContext, _FACTORY, "daemonSockPath").set(factory, None)  # as an interrupt leaves it
        lost += 1
try:
    print("without its daemon", count())
except Py4JJavaError as error:
    print("without its daemon", "NullPointerException" in str(error))
print("revived", daemons.revive() == lost > 0)
print("afterwards", count(), daemons.revive())
"""


@pytest.mark.slow
def test_a_daemon_that_spark_has_no_socket_of_is_started_again(tmp_path):
    words = [sys.executable, "-c", LOSES_ITS_DAEMON, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["at first 12 0", "without its daemon True", "revived True", "afterwards 12 0"]
