from __future__ import annotations

from types import SimpleNamespace

import pytest

from pystate.common.errors import ConfigurationError, ExternalSystemError, JobExecutionError
from pystate.runtime.spark.applications.application import check_cores, driver_address, is_alive
from pystate.runtime.spark.applications.required_cores import micro_batch_cores, real_time_cores
from tests.conftest import TEST_CORES


def test_a_job_that_could_never_run_is_refused_in_a_sentence_that_says_what_fits(spark):
    fitting = (TEST_CORES - 2) // 2
    check_cores(spark, micro_batch_cores(fitting), 0)
    with pytest.raises(JobExecutionError) as caught:
        check_cores(spark, micro_batch_cores(fitting + 1), 0)
    assert f"needs {TEST_CORES + 2} cores (2 x parallelism + 2); " in caught.value.message
    assert caught.value.message.endswith("; 2 are missing.")
    assert caught.value.hint == f"run with -p {fitting} or give Spark more cores"


def test_a_job_on_the_real_time_engine_needs_room_for_its_relays_too(spark):
    fitting = (TEST_CORES - 1) // 4
    check_cores(spark, real_time_cores(fitting, [fitting, 1, fitting, fitting]), 0)
    with pytest.raises(JobExecutionError) as caught:
        check_cores(spark, real_time_cores(fitting + 1, [fitting + 1, 1, fitting + 1, fitting + 1]), 0)
    needed = 4 * (fitting + 1) + 1
    assert caught.value.message == (
        f"Parallelism {fitting + 1} needs {needed} cores ({fitting + 1} for slots and {needed - fitting - 1} for relays, "
        f"one for each subtask of the real-time engine); the Spark master {spark.sparkContext.master} has {TEST_CORES}; "
        f"{needed - TEST_CORES} {'is' if needed - TEST_CORES == 1 else 'are'} missing."
    )
    assert caught.value.hint == f"run with -p {fitting} or give Spark more cores"


def test_no_parallelism_fits_where_there_is_room_for_none_or_the_program_sets_its_own():
    assert real_time_cores(2, [2, 2]).fitting(2) is None
    assert real_time_cores(2, [2, 2]).fitting(3) == 1
    assert real_time_cores(4, [4, 2]).fitting(5) is None, "-p 1 would leave a task its parallelism of 2"
    assert real_time_cores(4, [4, 2]).fitting(7) == 2


def test_only_epochs_go_on_with_fewer_cores():
    assert micro_batch_cores(3).to_go_on().cores == 4
    assert real_time_cores(3, [3, 3]).to_go_on() == real_time_cores(3, [3, 3])


def running_at(host):
    return SimpleNamespace(conf={"spark.driver.host": host})


def test_slots_are_given_the_number_of_sparks_own_address():
    assert driver_address(running_at("localhost")) == "127.0.0.1"


def test_an_address_of_another_machine_is_refused():
    with pytest.raises(ConfigurationError, match="^spark.driver.host = 192.0.2.1 is not an address of this machine: "):
        driver_address(running_at("192.0.2.1"))


def test_a_name_that_nobody_knows_is_for_the_restart_strategy():
    with pytest.raises(ExternalSystemError, match="^Nobody knows the host nobody.invalid: "):
        driver_address(running_at("nobody.invalid"))


def test_a_session_that_runs_is_alive(spark):
    assert is_alive(spark)
