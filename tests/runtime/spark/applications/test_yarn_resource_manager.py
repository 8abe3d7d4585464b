"""What YARN says of an application, by answers of Hadoop 3.4.2's resource manager, and where it is."""

from __future__ import annotations

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import ConfigurationError, JobExecutionError, SparkLostError
from pystate.runtime.spark.applications.application_state import ApplicationState, application_state, is_blocked
from pystate.runtime.spark.applications.cluster_settings import address_towards, cluster_settings
from pystate.runtime.spark.applications.yarn_resource_manager import (
    YarnAddresses,
    YarnView,
    hadoop_variables,
    look_at_yarn,
    starting_application,
    yarn_addresses,
    yarn_conf_dirs,
)
from pystate.runtime.spark.applications.yarn_start import watched_start
from tests.runtime.spark.applications.test_waiting_for_cores import Cluster
from tests.waiting import wait_until

PAGE = "http://rm:8088"
ID = "application_1795969230245_0002"
METRICS = {"availableMB": 512, "totalMB": 2048, "activeNodes": 1}
RUNNING = {
    "id": ID,
    "name": "pystate 1f",
    "queue": "root.default",
    "state": "RUNNING",
    "diagnostics": "",
    "allocatedMB": 512,
    "runningContainers": 1,
    "startedTime": 2,
    "resourceRequests": [
        {"resourceName": "/default-rack", "numContainers": 2, "capability": {"memory": 1536, "vCores": 1}},
        {"resourceName": "*", "numContainers": 2, "capability": {"memory": 1536, "vCores": 1}},
        {"resourceName": "*", "numContainers": 0, "capability": {"memory": 512, "vCores": 1}},
    ],
}
ACCEPTED = {
    **RUNNING,
    "state": "ACCEPTED",
    "allocatedMB": -1,
    "runningContainers": -1,
    "resourceRequests": [],
    "diagnostics": "[Sun Nov 29 16:19:48 +0000 2026] Application is added to the scheduler and is not yet activated. "
    "Queue's AM resource limit exceeded. Details : AM Partition = <DEFAULT_PARTITION>",
}
KILLED = {**ACCEPTED, "state": "KILLED", "diagnostics": f"Application {ID} was killed by user root at 127.0.0.1"}
FAILED = {
    **ACCEPTED,
    "state": "FAILED",
    "diagnostics": "AM Container exited with  exitCode: -1000\nFailing this attempt.Diagnostics: [2026-11-29 16:19:48.184]"
    "No space available\nFor more detailed output, check the application tracking page: http://rm:8088/x Then click on it",
}


def rest(app, metrics=METRICS, page=PAGE):
    """Return what fetches a page: the REST interface with one application."""
    answers = {
        f"{page}/ws/v1/cluster/metrics": {"clusterMetrics": metrics},
        f"{page}/ws/v1/cluster/apps/{ID}": {"app": app},
        f"{page}/ws/v1/cluster/apps?states=NEW,NEW_SAVING,SUBMITTED,ACCEPTED": {"apps": {"app": [app]} if app else None},
    }
    return answers.get


def view(app, metrics=METRICS):
    found = look_at_yarn((PAGE,), ID, rest(app, metrics))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("app", "sentence"),
    [
        (
            RUNNING,
            f"YARN has {ID} in queue root.default, RUNNING; 0 of 2 executors given (0 cores, 512 MB with its application "
            "master); asked: 2 x 1536 MB; 512 of 2048 MB free on 1 node",
        ),
        (
            ACCEPTED,
            f"YARN has {ID} in queue root.default, ACCEPTED; 512 of 2048 MB free on 1 node; YARN says: Application is added "
            "to the scheduler and is not yet activated. Queue's AM resource limit exceeded",
        ),
        (KILLED, f"the application {ID} was ended in YARN (KILLED): Application {ID} was killed by user root at 127.0.0.1"),
        (
            FAILED,
            f"the application {ID} was ended in YARN (FAILED): AM Container exited with exitCode: -1000 Failing this "
            "attempt.Diagnostics: No space available",
        ),
        (None, f"the application {ID} is not known to YARN ({PAGE}), which was started again without its memory"),
    ],
)
def test_what_an_application_asked_for_and_got_is_said_in_words_of_yarn(app, sentence):
    assert view(app).cores_sentence(ID, 0) == sentence


def test_a_cluster_without_nodes():
    empty = view(RUNNING, {"availableMB": 0, "totalMB": 0, "activeNodes": 0})
    assert empty.cores_sentence(ID, 0) == f"YARN ({PAGE}) has no node managers"
    assert empty.is_full


@pytest.mark.parametrize(
    ("app", "timed_out", "fate"),
    [
        (RUNNING, False, ApplicationState.WAITS),
        (RUNNING, True, ApplicationState.TOO_FEW),  # a new application would be queued behind this one
        (KILLED, False, ApplicationState.LOST),
        (None, False, ApplicationState.LOST),
        ({**RUNNING, "resourceRequests": []}, True, ApplicationState.LOST),  # nothing is asked, nothing comes
    ],
)
def test_an_application_that_yarn_has_ended_is_lost_and_one_that_waits_waits(app, timed_out, fate):
    assert application_state(ID, 0, view(app), timed_out=timed_out, restart=True) is fate
    assert is_blocked(ID, view(RUNNING))
    assert not is_blocked(ID, view({**RUNNING, "runningContainers": 2}))


def test_a_job_that_waits_for_cores_says_so_and_one_that_was_killed_ends():
    cluster = Cluster(view(RUNNING), view(KILLED))
    cluster.application_id = ID
    with pytest.raises(SparkLostError, match="was killed by user root"):
        cluster.wait(timeout_s=3600)
    assert cluster.said == [f"Waiting for 6 cores: {view(RUNNING).cores_sentence(ID, 0)}."]


def test_no_answer_and_other_answers_are_no_view():
    assert look_at_yarn((PAGE,), ID, lambda _: None) is None
    assert look_at_yarn((PAGE,), ID, lambda _: {"clusterMetrics": {}}) is None
    standby = rest(RUNNING, page="http://rm2:8088")
    found = look_at_yarn((PAGE, "http://rm2:8088"), ID, standby)
    assert isinstance(found, YarnView)
    assert found.page == "http://rm2:8088", "the one that answers"


def test_the_application_that_starts_is_found_by_its_name():
    found = starting_application((PAGE,), "pystate 1f", rest(ACCEPTED))
    assert found is not None
    assert found.application_id == ID
    assert starting_application((PAGE,), "pystate 2e", rest(ACCEPTED)) is None
    assert starting_application((PAGE,), "pystate 1f", rest(None)) is None


@pytest.fixture
def conf_dir(tmp_path, monkeypatch):
    def write(**values: str):
        lines = [f"<property><name>yarn.{name}</name><value>{value}</value></property>" for name, value in values.items()]
        (tmp_path / "yarn-site.xml").write_text(f"<configuration>{''.join(lines)}</configuration>")
        return tmp_path

    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    return write


RM = "resourcemanager."


@pytest.mark.parametrize(
    ("values", "clients", "pages"),
    [
        ({}, [("localhost", 8032)], ["http://localhost:8088"]),
        ({f"{RM}hostname": "rm"}, [("rm", 8032)], ["http://rm:8088"]),
        (
            {
                f"{RM}hostname": "rm",
                f"{RM}address": "0.0.0.0:28032",
                f"{RM}webapp.address": "${yarn.resourcemanager.hostname}:1",
            },
            [("rm", 28032)],
            ["http://rm:1"],
        ),
        ({f"{RM}hostname": "rm", "http.policy": "HTTPS_ONLY"}, [("rm", 8032)], ["https://rm:8090"]),
        (
            {f"{RM}ha.enabled": "true", f"{RM}ha.rm-ids": "a, b", f"{RM}hostname.a": "one", f"{RM}address.b": "two:1"}
            | {f"{RM}hostname.b": "two"},
            [("one", 8032), ("two", 1)],
            ["http://one:8088", "http://two:8088"],
        ),
    ],
)
def test_where_yarn_is_stands_in_hadoops_settings(conf_dir, values, clients, pages):
    assert yarn_addresses([conf_dir(**values)]) == YarnAddresses(tuple(clients), tuple(pages))


def test_without_hadoops_settings_the_error_names_what_is_to_be_set(tmp_path):
    with pytest.raises(ConfigurationError, match="HADOOP_CONF_DIR is not set"):
        yarn_addresses([])
    with pytest.raises(ConfigurationError, match=r"There is no .*yarn-site\.xml"):
        yarn_addresses([tmp_path])


def test_the_folders_are_those_of_spark_and_an_option_reaches_its_jvm(tmp_path):
    configuration = Configuration({"env.hadoop.conf.dir": "/c"})
    both = {"YARN_CONF_DIR": "/a", "HADOOP_CONF_DIR": "/b"}
    assert list(map(str, yarn_conf_dirs(configuration, both))) == ["/a", "/b", "/c"]
    assert hadoop_variables(configuration, both) == {}
    assert hadoop_variables(configuration, {}) == {"HADOOP_CONF_DIR": "/c"}
    assert hadoop_variables(Configuration({}), {}) == {}


def test_on_yarn_the_driver_takes_its_address_there_short_paths_for_sockets_and_forgets_losses(conf_dir, monkeypatch):
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    conf_dir(**{f"{RM}hostname": "127.0.0.1"})
    assert address_towards("yarn", 0) == "127.0.0.1"
    settings = cluster_settings(Configuration({}), "yarn", {}, 0)
    assert settings == {
        "spark.driver.host": "127.0.0.1",
        "spark.python.unix.domain.socket.dir": "/tmp",
        "spark.executor.failuresValidityInterval": "1h",
        "spark.yarn.am.attemptFailuresValidityInterval": "1h",
    }


def test_a_start_that_waits_is_told_and_one_that_yarn_ends_says_why(conf_dir):
    conf_dir(**{f"{RM}webapp.address": "rm:8088"})
    configuration, said = Configuration({"pystate.spark.master": "yarn"}), []
    with watched_start(configuration, "pystate 1f", said.append, rest(ACCEPTED)):
        wait_until(lambda: said)
    assert said == [f"Waiting for YARN to start the application: {view(ACCEPTED).cores_sentence(ID, 0)}."]

    with pytest.raises(JobExecutionError) as caught, watched_start(configuration, "x", said.append, rest(KILLED)):
        raise RuntimeError(f"Application {ID} has been killed")  # noqa: TRY003, EM102 - as py4j would
    assert caught.value.message == view(KILLED).lost_sentence(ID)
    assert caught.value.hint == f"yarn logs -applicationId {ID}"
    with pytest.raises(RuntimeError), watched_start(configuration, "x", said.append, rest(KILLED)):
        raise RuntimeError
    with watched_start(Configuration({}), "x", said.append):  # no YARN is asked for
        pass
