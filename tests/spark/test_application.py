from __future__ import annotations

import os

import pytest

from pystate.common.errors import JobExecutionError
from pystate.spark.application import check_cores, is_alive, local_threads
from tests.conftest import TEST_CORES


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


def test_a_job_that_could_never_run_is_refused_in_a_sentence_that_says_what_fits(spark):
    fitting = (TEST_CORES - 2) // 2
    check_cores(spark, fitting, 0)
    with pytest.raises(JobExecutionError) as caught:
        check_cores(spark, fitting + 1, 0)
    assert f"needs {TEST_CORES + 2} cores" in caught.value.message
    assert caught.value.hint == f"run with -p {fitting} or give Spark more cores"


def test_a_session_that_runs_is_alive(spark):
    assert is_alive(spark)
