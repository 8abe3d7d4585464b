"""What spark-submit says is above what the file of options says."""

from __future__ import annotations

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.pystate_options import PystateOptions
from pystate.common.errors import ConfigurationError
from pystate.common.files.home import parse_job_id
from pystate.runtime.spark.sessions.session import session_settings
from pystate.runtime.spark.sessions.submitted import GATEWAY, submitted_settings, with_submitted

OF_SUBMIT = {
    "spark.master": "local[8]",
    "spark.app.name": "job.py",
    "spark.app.submitTime": "1",
    "spark.submit.deployMode": "client",
    "spark.submit.pyFiles": "/jobs/pystate.zip",
}


def test_a_program_that_it_has_not_started_asks_nobody(monkeypatch):
    monkeypatch.delenv(GATEWAY, raising=False)
    assert submitted_settings() is None


def test_its_settings_count_for_more_and_options_of_pystate_go_with_them():
    configuration = Configuration(
        {"pystate.spark.master": "local[2]", "spark.executor.memory": "1g", "parallelism.default": "1"}
    )
    own = {"spark.executor.memory": "2g", "spark.pystate.parallelism.default": "3", "spark.pystate.job-id": "ab" * 16}
    assert with_submitted(configuration, {**OF_SUBMIT, **own}) == []
    settings = session_settings(configuration)
    assert settings["spark.master"] == "local[8]"
    assert settings["spark.executor.memory"] == "2g"
    assert settings["spark.sql.shuffle.partitions"] == "3"
    assert settings["spark.app.name"] == "job.py"
    assert configuration.to_dict()["pystate.job-id"] == "ab" * 16
    assert not [key for key in settings if key.startswith(("spark.submit", "spark.app.submitTime", "spark.pystate"))]


def test_without_a_master_a_job_gets_the_threads_that_it_needs():
    configuration = Configuration({"parallelism.default": "2"})
    with_submitted(configuration, {**OF_SUBMIT, "spark.master": "local[*]"})
    assert session_settings(configuration)["spark.master"] == "local[6,4]"


def test_what_a_cluster_turns_on_for_everybody_is_switched_off_and_said():
    configuration = Configuration({})
    (notice,) = with_submitted(configuration, {**OF_SUBMIT, "spark.dynamicAllocation.enabled": "true"})
    assert notice.startswith("spark.dynamicAllocation.enabled = true of spark-submit is switched off: slots are")
    assert session_settings(configuration)["spark.dynamicAllocation.enabled"] == "false"


def test_a_value_that_an_option_does_not_take_is_refused():
    with pytest.raises(ConfigurationError, match="many"):
        with_submitted(Configuration({}), {"spark.pystate.parallelism.default": "many"})


def test_attempts_of_an_application_master_are_starts_of_one_job_unless_it_has_an_id_of_its_own():
    def job_id(application: str, **options: str) -> str | None:
        configuration = Configuration()
        with_submitted(configuration, {"spark.yarn.app.id": application, **options})
        return configuration.get(PystateOptions.JOB_ID)

    first = job_id("application_1_0001")
    assert first is not None
    assert parse_job_id(first) == first
    assert (job_id("application_1_0001") == first, job_id("application_1_0002") == first) == (True, False)
    assert job_id("application_1_0001", **{"spark.pystate.job-id": "ab" * 16}) == "ab" * 16
