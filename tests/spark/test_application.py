from __future__ import annotations

import pytest

from pystate.common.errors import JobExecutionError
from pystate.spark.application import check_cores, is_alive
from tests.conftest import TEST_CORES


def test_a_job_that_could_never_run_is_refused_in_a_sentence_that_says_what_fits(spark):
    fitting = (TEST_CORES - 2) // 2
    check_cores(spark, fitting, 0)
    with pytest.raises(JobExecutionError) as caught:
        check_cores(spark, fitting + 1, 0)
    assert f"needs {TEST_CORES + 2} cores" in caught.value.message
    assert caught.value.hint == f"run with -p {fitting} or give Spark more cores"


def test_a_session_that_runs_is_alive(spark):
    assert is_alive(spark)
