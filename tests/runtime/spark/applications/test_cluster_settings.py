from __future__ import annotations

import socket
import sys
from types import SimpleNamespace

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.deployment_options import ExecutionTarget
from pystate.common.errors import ConfigurationError, JobExecutionError
from pystate.runtime.spark.applications.cluster_settings import (
    address_towards,
    archive_settings,
    cluster_settings,
    worker_python,
)
from pystate.runtime.spark.sessions.session import check_session, spark_settings

LOCAL, SPARK = ExecutionTarget.LOCAL, ExecutionTarget.SPARK


@pytest.fixture
def master(monkeypatch):
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"spark://127.0.0.1:{server.getsockname()[1]}"


def nobody():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def test_the_driver_uses_the_address_at_which_it_reaches_the_master(master):
    assert cluster_settings(Configuration({}), master, {}, 0) == {"spark.driver.host": "127.0.0.1"}


def test_an_address_of_the_users_stands(master, monkeypatch):
    assert cluster_settings(Configuration({}), master, {"spark.driver.host": "10.0.0.1"}, 0) == {}
    monkeypatch.setenv("SPARK_LOCAL_IP", "10.0.0.1")
    assert cluster_settings(Configuration({}), master, {}, 0) == {}


def test_of_several_masters_one_that_answers_will_do(master):
    assert address_towards(f"spark://{nobody()},{master[len('spark://') :]}", 0) == "127.0.0.1"


def test_a_master_that_does_not_answer_is_told_in_a_sentence():
    with pytest.raises(JobExecutionError) as caught:
        address_towards(f"spark://{nobody()}", 0)
    assert caught.value.message.startswith("No Spark master answers at spark://127.0.0.1:")
    assert caught.value.message.endswith(": Connection refused.")


@pytest.mark.parametrize("master", ["spark://host", "spark://:7077", "spark://host:port"])
def test_what_is_no_address_of_a_master_is_refused(master):
    with pytest.raises(ConfigurationError, match="is not the address of a Spark master"):
        address_towards(master, 0)


def test_the_way_to_kubernetes_is_the_way_to_its_api_server():
    assert address_towards("k8s://https://127.0.0.1:6443", 0) == "127.0.0.1"
    assert address_towards("k8s://127.0.0.1:6443", 0) == "127.0.0.1"


def test_archives_become_sparks(tmp_path):
    (tmp_path / "environment.tar.gz").touch()
    (tmp_path / "data.zip").touch()
    text = f"{tmp_path / 'environment.tar.gz'}#environment, {tmp_path / 'data.zip'}"
    configuration = Configuration({"python.archives": text})
    expected = f"{tmp_path / 'environment.tar.gz'}#environment,{tmp_path / 'data.zip'}"
    assert archive_settings(configuration, "spark://host:7077", {}) == {"spark.archives": expected}
    assert archive_settings(configuration, "yarn", {}) == {"spark.yarn.dist.archives": expected}
    with pytest.raises(ConfigurationError, match=r"python.archives and spark.archives are set both"):
        archive_settings(configuration, "spark://host:7077", {"spark.archives": "x.zip"})
    with pytest.raises(ConfigurationError, match=r"There is no .*nowhere\.zip"):
        archive_settings(Configuration({"python.archives": "nowhere.zip#x"}), "spark://host:7077", {})


def test_the_python_of_workers(monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", "/of/the/cluster/python")
    chosen = Configuration({"python.executable": sys.executable})
    nothing = Configuration({})
    assert worker_python(nothing, LOCAL, {}) == sys.executable
    assert worker_python(nothing, SPARK, {}) == "/of/the/cluster/python"
    assert worker_python(nothing, SPARK, {"spark.pyspark.python": "environment/bin/python"}) == "environment/bin/python"
    assert worker_python(chosen, SPARK, {"spark.pyspark.python": "other"}) == sys.executable
    monkeypatch.delenv("PYSPARK_PYTHON")
    assert worker_python(nothing, SPARK, {}) == sys.executable
    with pytest.raises(ConfigurationError, match="There is no Python at environment/bin/python"):
        worker_python(Configuration({"python.executable": "environment/bin/python"}), LOCAL, {})


def test_a_session_on_a_cluster_names_no_path_of_this_machine(master, tmp_path):
    settings = spark_settings(Configuration({"pystate.spark.master": master}), tmp_path / "spark.log")
    assert settings["spark.driver.host"] == "127.0.0.1"
    assert not [key for key in settings if key.startswith("spark.executorEnv.")]
    # a cluster's spark-defaults.conf may have them on
    assert settings["spark.dynamicAllocation.enabled"] == "false"
    assert settings["spark.speculation"] == "false"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.submit.deployMode", "cluster"),
        ("spark.remote", "sc://host"),
        ("spark.dynamicAllocation.enabled", "true"),
        ("spark.speculation", "True"),
        ("spark.sql.streaming.asyncProgressTracking.enabled", "true"),
        ("spark.python.worker.killOnIdleTimeout", "true"),
        ("spark.sql.execution.pyspark.udf.killOnIdleTimeout", "true"),
        ("spark.sql.streaming.minBatchesToRetain", "9"),
        ("spark.sql.streaming.minBatchesToRetain", "many"),
        ("spark.ui.retainedStages", "20"),
        ("spark.sql.shuffle.orderIndependentChecksum.enabled", "false"),
        ("spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch", "false"),
        ("spark.ui.retainedTasks", "100"),
    ],
)
def test_what_slots_can_not_live_with_is_refused(tmp_path, key, value):
    with pytest.raises(ConfigurationError) as caught:
        spark_settings(Configuration({key: value}), tmp_path / "spark.log")
    assert caught.value.message.startswith(f"{key} ")
    assert caught.value.where == key


@pytest.mark.parametrize(
    ("key", "value"),
    [("spark.sql.streaming.minBatchesToRetain", "2"), ("spark.sql.execution.pyspark.udf.killOnIdleTimeout", "true")],
)
def test_what_the_program_or_a_file_of_sparks_own_has_set_is_refused_too(key, value):
    session = SimpleNamespace(conf={})
    check_session(session)
    session.conf[key] = value
    with pytest.raises(ConfigurationError, match=key):
        check_session(session)


def test_as_many_batches_as_checkpoints_need_are_enough(tmp_path):
    spark_settings(Configuration({"spark.sql.streaming.minBatchesToRetain": "10"}), tmp_path / "spark.log")


def test_a_session_on_this_machine_stays_on_loopback(tmp_path):
    settings = spark_settings(Configuration({}), tmp_path / "spark.log")
    assert settings["spark.master"] == "local[4,4]"
    assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == "127.0.0.1"


def test_batches_between_spark_and_python_are_bounded_by_bytes_unless_the_user_says_how(tmp_path):
    key = "spark.sql.execution.arrow.maxBytesPerBatch"
    assert spark_settings(Configuration({}), tmp_path / "spark.log")[key] == str(8 << 20)
    assert spark_settings(Configuration({key: "1g"}), tmp_path / "spark.log")[key] == "1g"


def test_spark_compares_what_a_task_writes_when_it_is_run_again(tmp_path):
    settings = spark_settings(Configuration({}), tmp_path / "spark.log")
    checksum = "spark.sql.shuffle.orderIndependentChecksum"
    assert settings[f"{checksum}.enabled"] == settings[f"{checksum}.enableFullRetryOnMismatch"] == "true"


def test_warnings_that_connectors_name_are_left_out_of_the_log(tmp_path):
    spark_settings(Configuration({}), tmp_path / "spark.log")
    lines = (tmp_path / "log4j2.properties").read_text().splitlines()
    assert "logger.q0.name = org.apache.spark.sql.kafka010.consumer.KafkaDataConsumer" in lines
    assert "logger.q0.level = error" in lines
