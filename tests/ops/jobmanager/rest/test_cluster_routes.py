from __future__ import annotations

import pytest

from tests.ops.jobmanager.rest.in_process import HOME_TOKEN, InProcess

UNKNOWN = "0" * 31 + "1"
TOKEN = {"Authorization": f"Bearer {HOME_TOKEN}"}


def test_a_job_has_a_plan_a_configuration_and_no_accumulators(served):
    options = {"execution.checkpointing.interval": "5 s", "s3.secret-key": "hunter2"}
    job = served.submit(configuration=options)

    plan = served.get(f"/jobs/{job}/plan")["plan"]
    assert plan == served.get(f"/v1/jobs/{job}")["plan"]
    assert [node["uid"] for node in plan["nodes"]] == ["count"]
    config = served.get(f"/jobs/{job}/config")
    assert config["execution-config"]["job-parallelism"] == 2
    assert config["execution-config"]["restart-strategy"].startswith("restarts after 1000 ms")
    assert config["pystate"]["configuration"] == {**options, "s3.secret-key": "******"}
    accumulators = served.get(f"/jobs/{job}/accumulators")
    assert accumulators["user-task-accumulators"] == []


def test_a_job_without_checkpoints_is_not_restarted(served):
    job = served.submit()

    assert served.get(f"/jobs/{job}/config")["execution-config"]["restart-strategy"] == "no restarts"


def test_a_vertex_of_a_job(served):
    job = served.submit()

    assert len(served.get(f"/jobs/{job}/vertices/{'A' * 32}")["subtasks"]) == 2
    answer = served.client.get(f"/jobs/{job}/vertices/{UNKNOWN}")
    assert (answer.status_code, answer.json()["errors"]) == (404, [f"There is no vertex {UNKNOWN} in job {job}."])


def test_a_running_job_is_a_task_manager_with_its_slots(served):
    running, ended = served.submit(), served.submit("--finish", "0", state="FINISHED")

    (found,) = served.get("/taskmanagers")["taskmanagers"]
    assert (found["id"], found["slotsNumber"], found["freeSlots"]) == (running, 2, 0)
    assert served.get("/overview")["slots-total"] == 2
    one = served.get(f"/taskmanagers/{running}")
    assert [slot["jobId"] for slot in one["allocatedSlots"]] == [running, running]
    assert served.client.get(f"/taskmanagers/{ended}").status_code == 404
    assert served.client.get(f"/taskmanagers/{UNKNOWN}").status_code == 404


def test_the_job_managers_options_are_shown_without_secrets(tmp_path):
    options = {"rest.port": "8081", "my.password": "hunter2", "pystate.rest.token-file": "/etc/token"}
    application = InProcess(tmp_path / "home", configuration=options)

    assert application.get("/jobmanager/config") == [
        {"key": "my.password", "value": "******"},
        {"key": "pystate.rest.token-file", "value": "/etc/token"},
        {"key": "rest.port", "value": "8081"},
    ]


def test_the_job_managers_logs_are_listed_and_read(served):
    log = served.home.jobmanager_log
    assert served.get("/jobmanager/logs") == {"logs": []}
    assert served.client.get("/jobmanager/log", headers=TOKEN).status_code == 404
    log.write_text("it began\n")
    log.with_name(f"{log.name}.1").write_text("before\n")

    assert [(one["name"], one["size"]) for one in served.get("/jobmanager/logs")["logs"]] == [
        (log.name, 9),
        (f"{log.name}.1", 7),
    ]
    assert served.client.get("/jobmanager/log", headers=TOKEN).text == "it began\n"
    assert served.client.get(f"/jobmanager/logs/{log.name}.1", headers=TOKEN).text == "before\n"


@pytest.mark.parametrize("name", ["token", "..%2Ftoken", "%2e%2e%2ftoken", "jobmanager.log.9", "*"])
def test_no_other_file_is_read_as_a_log(served, name):
    served.home.token.write_text(HOME_TOKEN)
    served.home.jobmanager_log.write_text("it began\n")
    link = served.home.jobmanager_log.with_name(f"{served.home.jobmanager_log.name}.9")
    link.symlink_to(served.home.token)

    assert served.client.get(f"/jobmanager/logs/{name}", headers=TOKEN).status_code == 404


def test_the_cluster_is_shut_down_by_its_owner_only(tmp_path):
    ended: list[bool] = []
    application = InProcess(tmp_path / "home", shut_down=lambda: ended.append(True))

    assert application.client.delete("/cluster").status_code == 401
    assert not ended
    answer = application.client.delete("/v1/cluster", headers=TOKEN)
    assert (answer.status_code, answer.json(), ended) == (200, {}, [True])


def test_what_is_not_there_and_verbs_that_are_not_known(served):
    nothing = served.client.get("/jobs/x/y/z")
    assert (nothing.status_code, nothing.json()) == (404, {"errors": ["Not found: /jobs/x/y/z"]})
    wrong = served.client.put("/jobs")
    assert (wrong.status_code, sorted(wrong.headers["allow"].split(", "))) == (405, ["GET", "HEAD"])
    assert served.client.get("/jobs/").status_code == 404
    huge = served.client.post("/savepoint-disposal", content=b" " * (5 << 20))
    assert huge.status_code == 413


def test_the_place_and_the_hint_of_an_error_are_for_our_own_client(served):
    path = f"/jobs/{UNKNOWN}"

    assert served.client.get(path).json() == {"errors": [f"Job {UNKNOWN} not found"]}
    ours = served.client.get(path, headers={"pystate-client": "1"}).json()["pystate"]
    assert (ours["class"], ours["hint"]) == ("JobNotFoundError", "pystate list -a")


def test_a_trigger_id_of_the_other_kind_is_not_found(served):
    job = served.submit("--savepoint", "0")
    trigger = "ab" * 16
    assert served.client.post(f"/jobs/{job}/checkpoints", json={"triggerId": trigger}).status_code == 202

    while served.get(f"/jobs/{job}/checkpoints/{trigger}")["status"]["id"] != "COMPLETED":
        pass
    assert served.client.get(f"/jobs/{job}/savepoints/{trigger}").status_code == 404
