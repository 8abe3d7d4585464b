"""The routes about metrics: Flink's shapes, and the text for Prometheus."""

import os
import signal

import pytest

from pystate.common.configuration.groups.metric_options import PrometheusReporterOptions
from tests.core.metrics.test_prometheus_text import only, read
from tests.ops.jobmanager.harness import eventually
from tests.ops.jobmanager.rest.in_process import InProcess
from tests.runtime.checkpoint.stats.statistics import Statistics
from tests.runtime.checkpoint.stats.tasks import COUNT

VERTEX = f"vertices/{COUNT.vertex_id}"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """An application with a job that runs, and one that has failed."""
    application = InProcess(tmp_path_factory.mktemp("metrics") / "home")
    job_id = application.submit("--name", "word count")
    Statistics().run(1).write(application.home.job(job_id).checkpoints)
    application.failed = application.submit("--fail", "0", state="FAILED")
    application.job_id = job_id
    yield application
    application.close()


def ids(answer):
    return [entry["id"] for entry in answer]


def test_without_get_the_ids_are_listed_and_with_it_values_as_text(running):
    listed = running.get(f"/jobs/{running.job_id}/metrics")
    assert {"numRestarts", "uptime", "lastCheckpointDuration", "lastEpochDuration"} <= set(ids(listed))
    assert all(set(entry) == {"id"} for entry in listed)
    asked = running.get(f"/jobs/{running.job_id}/metrics?get=lastCheckpointDuration,nothing,%20lastCheckpointExternalPath")
    assert asked == [
        {"id": "lastCheckpointDuration", "value": "110"},
        {"id": "lastCheckpointExternalPath", "value": "file:/ckpt/chk-1"},
    ]
    assert running.get(f"/v1/jobs/{running.job_id}/metrics?get=numRestarts") == [{"id": "numRestarts", "value": "0"}]


def test_a_vertex_has_subtask_operator_and_group_in_its_ids(running):
    base = f"/jobs/{running.job_id}/{VERTEX}"
    listed = ids(running.get(f"{base}/metrics"))
    assert "0.numRecordsIn" in listed
    assert "1.Process__count.numRecordsOut" in listed
    assert '1.Process__count.words.lang.e"n\\\n.seen' in listed
    asked = running.get(f"{base}/metrics?get=1.numRecordsIn,0.Process__count.last_word,0.Process__count.full")
    assert [entry["value"] for entry in asked] == ["101", "text", "true"]
    assert running.get(f"{base}/subtasks/1/metrics?get=numRecordsIn") == [{"id": "numRecordsIn", "value": "101"}]
    assert running.get(f"{base}/subtasks/7/metrics") == []


def test_a_task_tells_the_watermark_of_each_subtask_in_flinks_numbers(running):
    assert running.get(f"/jobs/{running.job_id}/{VERTEX}/watermarks") == [
        {"id": "0.currentInputWatermark", "value": "-9223372036854775808"},
        {"id": "1.currentInputWatermark", "value": "1788000000123"},
    ]
    assert running.get(f"/jobs/{running.job_id}/vertices/{'e' * 32}/watermarks") == []


def test_subtasks_are_added_up(running):
    base = f"/jobs/{running.job_id}/{VERTEX}/subtasks/metrics"
    assert running.get(f"{base}?get=numRecordsIn") == [
        {"id": "numRecordsIn", "min": 100.0, "max": 101.0, "sum": 201.0, "avg": 100.5}
    ]
    assert running.get(f"{base}?get=numRecordsIn&agg=sum,MAX") == [{"id": "numRecordsIn", "sum": 201.0, "max": 101.0}]
    assert running.get(f"{base}?get=numRecordsIn&agg=sum&subtasks=1-5") == [{"id": "numRecordsIn", "sum": 101.0}]
    # texts, truths and what is no number have no sum
    texts = "Process__count.last_word,Process__count.full,Process__count.broken,nothing"
    assert running.get(f"{base}?get={texts}") == []
    assert "numRecordsIn" in ids(running.get(base))


def test_jobs_are_added_up_those_that_have_ended_only_where_they_are_asked_for(running):
    one = running.get("/jobs/metrics?get=numRestarts,lastEpochDuration&agg=sum")
    assert one == [{"id": "numRestarts", "sum": 0.0}, {"id": "lastEpochDuration", "sum": 340.0}]
    both = running.get(f"/jobs/metrics?get=uptime&agg=min&jobs={running.job_id},{running.failed}")
    assert both == [{"id": "uptime", "min": -1.0}]


def test_the_job_manager_has_metrics_too(running):
    assert ids(running.get("/jobmanager/metrics")) == [
        "disk.home.diskFree",
        "disk.home.diskTotal",
        "disk.logs.diskFree",
        "disk.logs.diskTotal",
        "numRegisteredTaskManagers",
        "numRunningJobs",
        "taskSlotsAvailable",
        "taskSlotsTotal",
    ]
    assert running.get("/jobmanager/metrics?get=numRunningJobs") == [{"id": "numRunningJobs", "value": "1"}]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"/jobs/{'f' * 32}/metrics", 404),
        ("/jobs/metrics?agg=median", 400),
        ("/jobs/metrics?jobs=zz", 400),
        ("/jobs/JOB/VERTEX/subtasks/metrics?subtasks=a", 400),
        ("/jobs/JOB/VERTEX/subtasks/metrics?subtasks=1-99999999", 400),
        ("/jobs/JOB/VERTEX/subtasks/metrics?subtasks=1-99999", 400),
        ("/jobs/JOB/VERTEX/subtasks/x/metrics", 400),
        ("/jobs/JOB/vertices/zz/metrics", 400),
    ],
)
def test_what_is_asked_wrongly_is_refused_with_a_sentence(running, path, status):
    answer = running.client.get(path.replace("JOB", running.job_id).replace("VERTEX", VERTEX))
    assert answer.status_code == status
    assert answer.json()["errors"][0]


def test_a_vertex_that_nobody_knows_has_no_metrics(running):
    assert running.get(f"/jobs/{running.job_id}/vertices/{'f' * 32}/metrics") == []


def test_prometheus_reads_everything_at_once(running):
    answer = running.client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == CONTENT_TYPE
    families = read(answer.text)
    assert only(families["flink_jobmanager_numRunningJobs"])[1] == 1
    free = families["flink_jobmanager_disk_diskFree"]
    assert {dict(labels)["disk"] for labels in free[2]} == {"home", "logs"}
    assert free[1] == "What is free on the disk of home, logs, checkpoints. Unit: bytes."
    assert only(families["pystate_job_up"]) == ({"job_id": running.job_id, "job_name": "word_count"}, 1)
    assert sorted(families["flink_taskmanager_job_task_numRecordsIn"][2].values()) == [100, 101]
    assert running.failed not in answer.text


def test_prefix_and_filter_come_from_the_configuration(tmp_path):
    configuration = {
        PrometheusReporterOptions.PREFIX.key: "pystate",
        PrometheusReporterOptions.FILTER_LABEL_VALUE_CHARACTER.key: "false",
    }
    application = InProcess(tmp_path / "home", configuration=configuration)
    try:
        application.submit("--name", "word count")
        families = read(application.client.get("/metrics").text)
        assert all(name.startswith("pystate_") for name in families)
        assert only(families["pystate_job_up"])[0]["job_name"] == "word count"
    finally:
        application.close()


def test_all_metrics_of_a_job_have_units_where_they_are_ours(running):
    answer = running.get(f"/pystate/jobs/{running.job_id}/metrics")
    assert (answer["name"], answer["state"], answer["up"]) == ("word count", "RUNNING", True)
    found = {(entry["subtask"], entry["operator"], entry["name"]): entry for entry in answer["metrics"]}
    assert found[None, None, "lastCheckpointDuration"]["unit"] == "ms"
    assert found[1, None, "numRecordsIn"] == {
        "task": "count -> print",
        "vertex": COUNT.vertex_id,
        "operator": None,
        "subtask": 1,
        "name": "numRecordsIn",
        "kind": "counter",
        "unit": "records",
        "value": 101,
    }
    assert found[0, "Process: count", "rate_count"]["kind"] == "meter"
    assert found[0, "Process: count", "rate_count"]["unit"] is None
    assert found[0, "Process: count", "broken"]["value"] == "NaN"
    assert running.client.get(f"/pystate/jobs/{running.job_id}/metrics").status_code == 401


def test_a_driver_that_hangs_is_down_and_holds_up_nobody_else(served):
    hanging, other = served.submit("--name", "hangs"), served.submit("--name", "runs")
    process = served.dispatcher.job(hanging).record.pid
    os.kill(process, signal.SIGSTOP)
    try:
        families = read(served.client.get("/metrics").text)
        assert {dict(labels)["job_name"]: value for labels, value in families["pystate_job_up"][2].items()} == {
            "hangs": 0,
            "runs": 1,
        }
        jobs = {dict(labels)["job_id"] for labels in families["flink_jobmanager_job_numRestarts"][2]}
        assert jobs == {other}
        # what stands in the files is told all the same, and marked
        assert served.get(f"/jobs/{hanging}/metrics?get=numRestarts") == [{"id": "numRestarts", "value": "0"}]
        assert served.get(f"/jobs/{hanging}/{VERTEX}/metrics") == []
        assert served.get(f"/pystate/jobs/{hanging}/metrics")["up"] is False
    finally:
        os.kill(process, signal.SIGCONT)
    # it is asked again after a while
    eventually(lambda: served.get(f"/pystate/jobs/{hanging}/metrics")["up"])


def test_an_ended_job_keeps_the_metrics_in_its_files(running):
    assert running.get(f"/jobs/{running.failed}/metrics?get=uptime,numRestarts") == [
        {"id": "uptime", "value": "-1"},
        {"id": "numRestarts", "value": "0"},
    ]


def test_a_job_that_has_ended_keeps_what_its_driver_said_last(running):
    job_id = running.submit("--finish", "0", state="FINISHED")
    base = f"/jobs/{job_id}"
    assert running.get(f"{base}/{VERTEX}/subtasks/1/metrics?get=numRecordsIn") == [{"id": "numRecordsIn", "value": "101"}]
    shown = running.get(f"/pystate/jobs/{job_id}/metrics")
    assert (shown["up"], shown["state"]) == (False, "FINISHED")
    assert {metric["task"] for metric in shown["metrics"]} == {None, "count -> print"}
    # Flink's page of the job shows the same
    assert running.get(base)["vertices"][0]["metrics"]["read-records"] == 201
    subtasks = running.get(f"{base}/{VERTEX}")["subtasks"]
    assert [one["metrics"]["read-records"] for one in subtasks] == [100, 101]
    # who scrapes wants what runs
    assert job_id not in running.client.get("/metrics").text


def test_a_subtask_of_a_running_job_has_its_own_figures(running):
    subtasks = running.get(f"/jobs/{running.job_id}/{VERTEX}")["subtasks"]
    assert [one["metrics"]["read-records"] for one in subtasks] == [100, 101]
    assert subtasks[0]["metrics"]["read-records-complete"]
    assert not subtasks[0]["metrics"]["read-bytes-complete"]  # this driver tells none
