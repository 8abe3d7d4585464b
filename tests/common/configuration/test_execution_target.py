from __future__ import annotations

import os

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.execution_target import execution_target, local_threads
from pystate.common.configuration.groups.deployment_options import ExecutionTarget
from pystate.common.errors import ConfigurationError

LOCAL, SPARK = ExecutionTarget.LOCAL, ExecutionTarget.SPARK


@pytest.mark.parametrize(
    ("master", "threads"),
    [
        ("local", 1),
        ("local[6]", 6),
        ("local[6,4]", 6),
        ("local[6, 4]", 6),
        ("local[*]", os.cpu_count()),
        ("local[*,2]", os.cpu_count()),
        ("spark://host:7077", None),
        ("local-cluster[2,2,1024]", None),
        ("yarn", None),
    ],
)
def test_the_threads_of_a_local_master_are_read_off_its_name(master, threads):
    assert local_threads(master) == threads


@pytest.mark.parametrize(
    ("target", "master", "expected"),
    [
        (None, None, LOCAL),
        (None, "local[4]", LOCAL),
        (None, "spark://host:7077", SPARK),
        (None, "yarn", SPARK),
        ("local", None, LOCAL),
        ("local", "local[4]", LOCAL),
        ("spark", "spark://host:7077", SPARK),
        ("SPARK", "k8s://https://host:443", SPARK),
    ],
)
def test_where_no_target_is_set_the_master_says_it(target, master, expected):
    given = {"execution.target": target, "pystate.spark.master": master}
    assert execution_target(Configuration({key: value for key, value in given.items() if value is not None})) is expected


def test_the_master_may_stand_under_the_name_that_spark_gives_it():
    assert execution_target(Configuration({"spark.master": "spark://host:7077", "execution.target": "spark"})) is SPARK


@pytest.mark.parametrize(
    ("target", "master", "message"),
    [
        ("spark", None, "execution.target = spark needs a cluster, but pystate.spark.master is not set."),
        (
            "spark",
            "local[4]",
            "execution.target = spark needs a cluster, but pystate.spark.master = local[4] is threads of this machine.",
        ),
        (
            "local",
            "spark://host:7077",
            "execution.target = local is this machine, but pystate.spark.master = spark://host:7077 is a cluster.",
        ),
    ],
)
def test_a_target_and_a_master_that_contradict_each_other_are_refused_with_the_fix(target, master, message):
    given = {"execution.target": target, **({"pystate.spark.master": master} if master else {})}
    with pytest.raises(ConfigurationError) as caught:
        execution_target(Configuration(given))
    assert caught.value.message == message
    assert caught.value.hint
