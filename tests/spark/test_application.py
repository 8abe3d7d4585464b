from __future__ import annotations

from types import SimpleNamespace

import pytest

from pystate.common.errors import ConfigurationError, JobExecutionError
from pystate.spark.application import check_cores, driver_address, is_alive
from tests.conftest import TEST_CORES


def test_a_job_that_could_never_run_is_refused_in_a_sentence_that_says_what_fits(spark):
    fitting = (TEST_CORES - 2) // 2
    check_cores(spark, fitting, 0)
    with pytest.raises(JobExecutionError) as caught:
        check_cores(spark, fitting + 1, 0)
    assert f"needs {TEST_CORES + 2} cores" in caught.value.message
    assert caught.value.hint == f"run with -p {fitting} or give Spark more cores"


def running_at(host):
    return SimpleNamespace(conf={"spark.driver.host": host})


def test_slots_are_given_the_number_of_sparks_own_address():
    assert driver_address(running_at("localhost")) == "127.0.0.1"


@pytest.mark.parametrize("host", ["192.0.2.1", "nobody.invalid"])
def test_an_address_of_another_machine_is_refused(host):
    with pytest.raises(ConfigurationError) as caught:
        driver_address(running_at(host))
    assert caught.value.message.startswith(f"spark.driver.host = {host} is not an address of this machine: ")


def test_a_session_that_runs_is_alive(spark):
    assert is_alive(spark)
