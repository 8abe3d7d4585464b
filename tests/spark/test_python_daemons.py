"""Spark's daemon of Python workers, lost half way through its start."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JJavaError

from pystate.spark.python_daemons import _FACTORY, PythonDaemons


def count(spark):
    return spark.sparkContext.parallelize([1, 2, 3], 1).map(lambda number: 2 * number).sum()


def test_a_daemon_that_spark_has_no_socket_of_is_started_again(spark):
    daemons = PythonDaemons(spark)
    assert count(spark) == 12
    assert daemons.revive() == 0
    lost = 0
    for factory in daemons.factories():
        idle = daemons.field(_FACTORY, "idleWorkers").get(factory)
        while not idle.isEmpty():
            factory.stopWorker(idle.dequeue())
        if daemons.field(_FACTORY, "daemon").get(factory) is not None:
            daemons.field(_FACTORY, "daemonSockPath").set(factory, None)  # as an interrupt leaves it
            lost += 1
    with pytest.raises(Py4JJavaError, match="NullPointerException"):
        count(spark)
    assert daemons.revive() == lost > 0
    assert count(spark) == 12
    assert daemons.revive() == 0
