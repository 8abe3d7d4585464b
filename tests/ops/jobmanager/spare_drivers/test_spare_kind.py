"""What a spare driver must have in common with the driver that a job needs."""

from __future__ import annotations

import dataclasses

import pytest

from pystate.ops.jobmanager.spare_drivers.spare_kind import spare_kind, submitted_options
from pystate.runtime.job_folder.submission import Submission

ONE = Submission(
    job_file="/jobs/one.py",
    arguments=[],
    working_directory="/jobs",
    parallelism=2,
    savepoint_path=None,
    allow_non_restored_state=False,
    configuration={"spark.driver.memory": "2g"},
    attached=False,
    python="/usr/bin/python3",
)
VARIABLES = {"PATH": "/bin", "TERM": "xterm", "HADOOP_CONF_DIR": "/etc/hadoop"}


def difference(variables=VARIABLES, **changes) -> str | None:
    """Say why a spare driver for ONE is none for the same with changes; None where it is."""
    mine, needed = spare_kind(ONE, VARIABLES), spare_kind(dataclasses.replace(ONE, **changes), variables)
    assert mine is not None
    assert needed is not None
    return None if mine == needed else mine.difference(needed)


@pytest.mark.parametrize(
    "changes",
    [
        {"job_file": "/other/two.py", "arguments": ["x"], "job_name": "two", "attached": True},
        {"savepoint_path": "/savepoints/1", "allow_non_restored_state": True},
        {"configuration": {"spark.driver.memory": "2g", "execution.checkpointing.interval": "1 s"}},
        {"parallelism": None, "configuration": {"spark.driver.memory": "2g", "parallelism.default": "2"}},
        {"variables": {**VARIABLES, "TERM": "dumb", "SHLVL": "7"}},
    ],
)
def test_what_a_running_driver_can_take_makes_no_difference(changes):
    assert difference(**changes) is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"python": "/opt/python"}, "its Python is another one"),
        ({"working_directory": "/elsewhere"}, "its working directory is /jobs"),
        ({"parallelism": 3}, "other options: parallelism.default"),
        ({"configuration": {"spark.driver.memory": "4g"}}, "other options: spark.driver.memory"),
        ({"configuration": {}}, "other options: spark.driver.memory"),
        ({"variables": {**VARIABLES, "AWS_SECRET": "hush"}}, "other environment variables: AWS_SECRET"),
        ({"variables": {**VARIABLES, "HADOOP_CONF_DIR": "/x"}}, "other environment variables: HADOOP_CONF_DIR"),
    ],
)
def test_what_it_cannot_take_is_named_without_its_value(changes, said):
    assert difference(**changes) == said


def test_there_is_none_for_a_cluster_whose_executors_it_would_hold():
    there = dataclasses.replace(ONE, configuration={"pystate.spark.master": "spark://host:7077"})
    assert spare_kind(there, VARIABLES) is None


def test_its_parallelism_and_options_are_those_of_the_submission():
    found = spare_kind(ONE, VARIABLES)
    assert found is not None
    assert found.parallelism == 2
    assert submitted_options(ONE).to_dict() == {"spark.driver.memory": "2g", "parallelism.default": "2"}
