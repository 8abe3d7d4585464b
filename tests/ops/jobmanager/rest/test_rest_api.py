from __future__ import annotations

import os
import signal
import threading

import pytest

from pystate.common.files.home import read_json
from pystate.ops.jobmanager.rest.rest_errors import CLIENT_HEADER
from pystate.ops.jobmanager.supervision import job_manager_runner
from tests.ops.jobmanager.harness import eventually
from tests.runtime.checkpoint.stats.statistics import Statistics
from tests.runtime.checkpoint.stats.tasks import COUNT

UNKNOWN = "0" * 31 + "1"


@pytest.mark.parametrize("prefix", ["", "/v1"])
def test_a_job_is_submitted_and_listed(manager, prefix):
    job = manager.submit()
    manager.wait_for(job, "RUNNING")

    assert manager.request("GET", f"{prefix}/jobs") == (200, {"jobs": [{"id": job, "status": "RUNNING"}]})
    assert manager.request("GET", f"{prefix}/jobs/overview")[1]["jobs"][0]["jid"] == job
    assert manager.request("GET", f"{prefix}/jobs/{job}")[1]["vertices"][0]["uid"] == "count"
    assert manager.request("GET", f"{prefix}/jobs/{job}/execution-result")[1] == {"status": {"id": "IN_PROGRESS"}}
    assert manager.request("GET", f"{prefix}/overview")[1]["jobs-running"] == 1
    assert manager.request("GET", f"{prefix}/config")[1]["flink-version"] == "2.3.0"


def test_a_submission_with_an_id_that_is_there_starts_no_second_job(manager):
    chosen = "5" * 32
    assert [manager.submit(job_id=chosen) for _ in range(3)] == [chosen] * 3
    assert [job["id"] for job in manager.request("GET", "/jobs")[1]["jobs"]] == [chosen]
    assert manager.request("POST", "/pystate/jobs", manager.submission(job_id="count"))[0] == 400


def test_arguments_that_are_too_long_for_a_process_are_the_submitters_fault(manager):
    status, answer = manager.request("POST", "/pystate/jobs", manager.submission(*["x" * 100_000] * 35))
    assert status == 400
    assert "Argument list too long" in answer["errors"][0]


def test_the_driver_finds_what_was_submitted_in_a_private_directory(manager):
    environment = {**manager.submission()["environment"], "COLOUR": "blue"}
    options = {"state.backend.type": "hashmap"}
    job = manager.submit("--environment", attached=True, environment=environment, configuration=options)
    manager.wait_for(job, "RUNNING")
    directory = manager.home.job(job)

    submission = read_json(directory.submission)
    assert submission["job_file"] == str(manager.job_file)
    assert submission["arguments"] == ["--environment"]
    assert submission["configuration"] == options
    assert submission["job_id"] == job
    assert "environment" not in submission
    assert directory.path.stat().st_mode & 0o777 == 0o700
    for path in (directory.secret, directory.submission, directory.record, directory.log, directory.stdout):
        assert path.stat().st_mode & 0o777 == 0o600, path
    printed = read_json(directory.stdout)
    assert printed["cwd"] == str(manager.job_file.parent)
    assert printed["env"]["COLOUR"] == "blue"
    assert printed["env"]["PYSTATE_HOME"] == str(manager.home.root)


def test_a_detached_job_prints_into_its_log(manager):
    job = manager.submit("--print", "2", "--finish", "0")
    manager.wait_for(job, "FINISHED")

    assert "1> line 1" in manager.home.job(job).log.read_text()
    assert not manager.home.job(job).stdout.exists()


def test_output_is_read_in_pieces_until_its_end(manager):
    job = manager.submit("--print", "3", "--finish", "0", attached=True)
    eventually(lambda: not manager.request("GET", f"/pystate/jobs/{job}")[1]["driver_running"])

    whole = b"1> line 0\n1> line 1\n1> line 2\nafter the end\n"
    assert manager.request("GET", f"/pystate/jobs/{job}/stdout") == (200, whole)
    assert manager.request("GET", f"/pystate/jobs/{job}/stdout?offset=30") == (200, whole[30:])
    assert manager.request("GET", f"/pystate/jobs/{job}/stdout?offset=999") == (200, b"")
    assert b"a line of noise" in manager.request("GET", f"/pystate/jobs/{job}/log")[1]
    assert manager.request("GET", f"/pystate/jobs/{job}/stdout?offset=-1")[0] == 400
    assert manager.request("GET", f"/pystate/jobs/{job}/secret")[0] == 404


@pytest.mark.parametrize("prefix", ["", "/v1"])
def test_a_savepoint_is_triggered_and_polled(manager, prefix):
    job = manager.submit("--savepoint", "2")
    manager.wait_for(job, "RUNNING")
    body = {"target-directory": "/tmp/s", "cancel-job": False, "formatType": "CANONICAL", "triggerId": None}

    status, answer = manager.request("POST", f"{prefix}/jobs/{job}/savepoints", body)

    path = f"{prefix}/jobs/{job}/savepoints/{answer['request-id']}"
    assert status == 202
    assert manager.request("GET", path)[1]["status"] == {"id": "IN_PROGRESS"}
    assert manager.operation(job, answer["request-id"]) == {"location": f"/tmp/s/savepoint-{job[:6]}-0123456789ab"}
    assert manager.state(job) == "RUNNING"


def test_the_same_trigger_id_is_the_same_savepoint(manager):
    job = manager.submit()
    manager.wait_for(job, "RUNNING")
    body = {"target-directory": "/tmp/first", "triggerId": "ab" * 16}

    assert manager.request("POST", f"/jobs/{job}/savepoints", body)[1] == {"request-id": "ab" * 16}
    manager.operation(job, "ab" * 16)
    manager.request("POST", f"/jobs/{job}/savepoints", {**body, "target-directory": "/tmp/second"})

    assert manager.operation(job, "ab" * 16)["location"].startswith("/tmp/first/")


def test_a_savepoint_without_a_directory_anywhere_is_refused_at_once(manager):
    job = manager.submit()
    manager.wait_for(job, "RUNNING")

    status, answer = manager.request("POST", f"/jobs/{job}/savepoints", {"target-directory": None})

    assert status == 400
    assert answer["errors"] == [
        "Config key [execution.checkpointing.savepoint-dir] is not set. Property [target-directory] must be provided."
    ]


def test_the_jobs_own_savepoint_directory_counts(manager):
    job = manager.submit(configuration={"execution.checkpointing.savepoint-dir": "/tmp/own"})
    manager.wait_for(job, "RUNNING")

    answer = manager.request("POST", f"/jobs/{job}/savepoints", {})[1]

    assert manager.operation(job, answer["request-id"])["location"].startswith("/tmp/own/")


def test_a_savepoint_that_fails_says_why_and_the_job_goes_on(manager):
    job = manager.submit("--savepoint-fails")
    manager.wait_for(job, "RUNNING")
    body = {"target-directory": "/tmp/s", "cancel-job": True}

    answer = manager.request("POST", f"/jobs/{job}/savepoints", body)[1]

    cause = manager.operation(job, answer["request-id"])["failure-cause"]
    assert cause["pystate"]["message"] == "The savepoint can't be written."
    assert cause["pystate"]["hint"] == "free some space"
    assert manager.state(job) == "RUNNING"


@pytest.mark.parametrize("damage", ["{", '{"configuration": 1}'])
def test_a_damaged_submission_is_an_error_that_names_it(manager, damage):
    job = manager.submit()
    manager.wait_for(job, "RUNNING")
    manager.home.job(job).submission.write_text(damage)

    status, answer = manager.request("GET", f"/jobs/{job}/config", headers={CLIENT_HEADER: "1"})

    assert status == 500
    assert answer["errors"][0].startswith("The submission is damaged: ")
    assert answer["pystate"]["where"] == str(manager.home.job(job).submission)
    assert manager.state(job) == "RUNNING"


def test_a_job_whose_driver_dies_and_whose_submission_is_damaged_fails_of_that(manager):
    job = manager.submit("--restart", "3", "10")
    manager.wait_for(job, "RUNNING")
    manager.home.job(job).submission.write_text("{")
    os.kill(manager.request("GET", f"/pystate/jobs/{job}")[1]["pid"], signal.SIGKILL)

    manager.wait_for(job, "FAILED")

    cause = manager.request("GET", f"/jobs/{job}/exceptions")[1]["exceptionHistory"]["entries"][0]
    assert "The submission is damaged" in cause["pystate"]["message"]


def test_a_damaged_result_of_a_savepoint_is_an_error_that_names_it(manager):
    job = manager.submit()
    manager.wait_for(job, "RUNNING")
    trigger_id = manager.request("POST", f"/jobs/{job}/savepoints", {"target-directory": "/tmp/s"})[1]["request-id"]
    manager.operation(job, trigger_id)
    manager.home.job(job).operation(trigger_id).write_text('{"kind": "savepoint", "status": "COMPLETED"}')

    status, answer = manager.request("GET", f"/jobs/{job}/savepoints/{trigger_id}")

    assert status == 500
    assert answer["errors"][0].startswith("The result of the operation is damaged: ")


def test_a_savepoint_that_its_driver_did_not_live_to_complete_has_failed(manager):
    job = manager.submit("--savepoint", "60")
    manager.wait_for(job, "RUNNING")
    answer = manager.request("POST", f"/jobs/{job}/savepoints", {"target-directory": "/tmp/s"})[1]

    manager.kill_drivers()
    manager.wait_for(job, "FAILED")

    cause = manager.operation(job, answer["request-id"])["failure-cause"]
    assert cause["pystate"]["message"] == "The job ended (FAILED) before its savepoint was complete."


@pytest.mark.parametrize(("verb", "end"), [("savepoints", "CANCELED"), ("stop", "FINISHED")])
def test_cancel_and_stop_with_savepoint_end_the_job(manager, verb, end):
    job = manager.submit()
    manager.wait_for(job, "RUNNING")
    body = {"targetDirectory": "/tmp/s"} if verb == "stop" else {"target-directory": "/tmp/s", "cancel-job": True}

    answer = manager.request("POST", f"/jobs/{job}/{verb}", body)[1]

    assert manager.operation(job, answer["request-id"])["location"].startswith("/tmp/s/savepoint-")
    manager.wait_for(job, end)


def test_a_checkpoint_is_triggered_and_polled(manager):
    job = manager.submit()
    manager.wait_for(job, "RUNNING")

    answer = manager.request("POST", f"/jobs/{job}/checkpoints", {"checkpointType": "FULL"})[1]

    assert manager.operation(job, answer["request-id"], "checkpoints") == {"checkpointId": 7}


def test_cancel_ends_the_job_and_may_be_repeated(manager):
    job = manager.submit()
    manager.wait_for(job, "RUNNING")

    assert manager.request("PATCH", f"/jobs/{job}?mode=cancel") == (202, {})
    manager.wait_for(job, "CANCELED")
    assert manager.request("PATCH", f"/jobs/{job}?mode=cancel") == (202, {})


def test_cancel_reaches_a_driver_that_does_not_listen_yet(manager):
    job = manager.submit("--listen-after", "0.4", "--init", "0.3")

    assert manager.request("PATCH", f"/jobs/{job}")[0] == 202
    assert manager.state(job) == "CANCELLING"
    manager.wait_for(job, "CANCELED")


def test_a_driver_that_can_not_be_told_of_a_cancel_is_killed(manager, monkeypatch):
    monkeypatch.setattr(job_manager_runner, "_CANCEL_SECONDS", 0.2)
    job = manager.submit("--listen-after", "600")

    assert manager.request("PATCH", f"/jobs/{job}")[0] == 202
    manager.wait_for(job, "CANCELED")


def test_a_job_that_finished_can_not_be_cancelled_or_saved(manager):
    job = manager.submit("--finish", "0")
    manager.wait_for(job, "FINISHED")

    status, answer = manager.request("PATCH", f"/jobs/{job}?mode=cancel")

    assert status == 409
    assert answer["errors"] == [
        "Job cancellation failed because the job has already reached another terminal state (FINISHED)."
    ]


@pytest.mark.parametrize(("end", "said"), [("-9", "signal SIGKILL"), ("3", "exit code 3")])
def test_a_driver_that_dies_without_a_word_fails_its_job(manager, end, said):
    job = manager.submit("--die", "0", end)
    manager.wait_for(job, "FAILED")

    result = manager.request("GET", f"/jobs/{job}/execution-result")[1]["job-execution-result"]

    assert result["failure-cause"]["pystate"]["message"] == f"The driver process ended with {said}."
    assert result["failure-cause"]["pystate"]["hint"] == f"see {manager.home.job(job).log}"
    assert result["net-runtime"] >= 0
    entries = manager.request("GET", f"/jobs/{job}/exceptions")[1]["exceptionHistory"]["entries"]
    assert said in entries[0]["stacktrace"]
    assert manager.request("GET", f"/jobs/{job}")[1]["status-counts"]["FAILED"] == 1


def test_a_driver_that_is_killed_while_it_is_cancelled_leaves_the_job_cancelled(manager):
    job = manager.submit("--init", "60")
    manager.wait_for(job, "INITIALIZING")
    manager.request("PATCH", f"/jobs/{job}")

    eventually(lambda: manager.home.job(job).driver.exists())
    manager.kill_drivers()

    manager.wait_for(job, "CANCELED")


def test_unknown_and_malformed_ids_are_told_apart(manager):
    for method, path, body in (
        ("GET", "/jobs/{}", None),
        ("GET", "/jobs/{}/checkpoints", None),
        ("PATCH", "/jobs/{}?mode=cancel", None),
    ):
        code, answer = manager.request(method, path.format(UNKNOWN), body)
        assert (code, answer) == (404, {"errors": [f"Job {UNKNOWN} not found"]}), path
        status, answer = manager.request(method, path.format("nothex"), body)
        assert status == 400
        assert answer["errors"][0].startswith('Cannot parse JobID from "nothex".')
    assert manager.request("GET", "/jobs/..%2F..%2Fetc")[0] == 404


def test_an_unknown_trigger_id_is_not_found(manager):
    job = manager.submit()
    manager.wait_for(job, "RUNNING")

    assert manager.request("GET", f"/jobs/{job}/savepoints/{UNKNOWN}")[0] == 404
    assert manager.request("GET", f"/jobs/{job}/savepoints/..x")[0] == 400


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        {"target-directory": 7},
        {"target-directory": "relative/path"},
        {"target-directory": "/s", "cancel-job": "yes"},
        {"target-directory": "/s", "formatType": "bogus"},
        {"target-directory": "/s", "triggerId": "../../x"},
    ],
)
def test_a_malformed_savepoint_request_is_refused(manager, body):
    job = manager.submit()
    manager.wait_for(job, "RUNNING")

    status, answer = manager.request("POST", f"/jobs/{job}/savepoints", body)

    assert status == 400
    assert len(answer["errors"]) == 1


def test_running_code_and_reading_output_needs_the_token(manager):
    job = manager.submit()
    wrong = {"Authorization": "Bearer wrong"}

    assert manager.request("POST", "/pystate/jobs", manager.submission(), token=False)[0] == 401
    assert manager.request("POST", "/pystate/jobs", manager.submission(), wrong, token=False)[0] == 401
    assert manager.request("GET", f"/pystate/jobs/{job}/log", token=False)[0] == 401
    assert manager.request("GET", "/jobs", token=False)[0] == 200
    assert manager.home.token.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:8081"},
        {"Host": "192.0.2.7"},
        {"Host": ""},
        {"Host": "localhost:x"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
    ],
)
def test_what_a_browser_was_tricked_into_is_refused(manager, headers):
    job = manager.submit()

    assert manager.request("PATCH", f"/jobs/{job}", headers=headers)[0] == 403
    manager.wait_for(job, "RUNNING")


def test_a_page_of_ours_may_ask(manager):
    host = f"localhost:{manager.port}"

    assert manager.request("GET", "/jobs", headers={"Host": host, "Origin": f"http://{host}"})[0] == 200


def test_a_huge_request_is_refused(manager):
    assert manager.request("POST", "/pystate/jobs", b" " * (5 << 20))[0] in (400, 413)


def test_a_python_that_can_not_be_started_is_an_error_and_leaves_a_failed_job(manager, tmp_path):
    broken = tmp_path / "python"
    broken.write_text("not executable")

    status, answer = manager.request("POST", "/pystate/jobs", manager.submission(python=str(broken)))

    assert status == 500
    assert answer["errors"][0].startswith("The job's driver can't be started")
    assert [job["status"] for job in manager.request("GET", "/jobs")[1]["jobs"]] == ["FAILED"]


def test_a_driver_that_hangs_does_not_hold_up_the_others(manager):
    """More calls are sent to it than the server has threads, for ordinary requests (40) and for drivers (64)."""
    hanging, healthy = manager.submit(), manager.submit()
    manager.wait_for(hanging, "RUNNING")
    manager.wait_for(healthy, "RUNNING")
    pid = read_json(manager.home.job(hanging).driver)["pid"]
    body = {"target-directory": "/s"}
    answers: list[int] = []

    def ask() -> None:
        answers.append(manager.request("POST", f"/jobs/{hanging}/savepoints", body)[0])

    os.kill(pid, signal.SIGSTOP)
    stuck = [threading.Thread(target=ask) for _ in range(100)]
    try:
        for thread in stuck:
            thread.start()
        eventually(lambda: len(answers) >= 84)  # 16 hang, the rest is told so
        assert answers == [503] * 84
        assert manager.state(hanging) == "RUNNING"
        assert manager.request("POST", f"/jobs/{healthy}/savepoints", body)[0] == 202
        assert len(answers) == 84, "those who hang do so still: nobody has waited for them"
    finally:
        os.kill(pid, signal.SIGCONT)
        for thread in stuck:
            thread.join()
    assert answers[84:] == [202] * 16


def test_checkpoints_are_read_from_the_file_when_the_driver_is_gone(manager):
    job = manager.submit("--finish", "0")
    manager.wait_for(job, "FINISHED")
    path = f"/jobs/{job}/checkpoints"
    eventually(lambda: not manager.request("GET", f"/pystate/jobs/{job}")[1]["driver_running"])

    assert manager.request("GET", path)[1]["counts"]["total"] == 0
    tracker = Statistics().run(1, 2).trigger(3).acknowledge(3, "count", 1).write(manager.home.job(job).checkpoints).tracker
    assert manager.request("GET", f"{path}/details/2") == (200, tracker.details(2))
    vertex = COUNT.vertex_id
    assert manager.request("GET", f"{path}/details/2/subtasks/{vertex}") == (200, tracker.subtask_details(2, vertex))
    overview = manager.request("GET", path)[1]
    assert overview["counts"]["completed"] == 2
    assert overview["history"][1:] == tracker.to_rest()["history"][1:]
    assert overview["history"][0]["status"] == "FAILED", "nobody will complete it any more"
    for query, listed in (("limit=1", [3]), ("before=3&limit=1", [2]), ("before=1", [])):
        assert [one["id"] for one in manager.request("GET", f"{path}?{query}")[1]["history"]] == listed
    for query in ("limit=0", "limit=-1", "limit=x", "before=1.5"):
        assert manager.request("GET", f"{path}?{query}")[0] == 400
    subtasks = manager.request("GET", f"{path}/details/3/subtasks/{vertex}")[1]["subtasks"]
    assert [one["status"] for one in subtasks] == ["pending_or_failed", "completed"]


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("prefix", ["", "/v1"])
def test_checkpoints_that_are_not_known_are_not_found_in_flinks_words(manager, prefix, ended):
    job = manager.submit(*(("--finish", "0") if ended else ()))
    manager.wait_for(job, "FINISHED" if ended else "RUNNING")
    Statistics().run(1).write(manager.home.job(job).checkpoints)
    path = f"{prefix}/jobs/{job}/checkpoints/details"

    assert manager.request("GET", f"{path}/1")[1]["tasks"][COUNT.vertex_id]["name"] == "count -> print"
    assert manager.request("GET", f"{path}/1/subtasks/{COUNT.vertex_id.upper()}")[0] == 200
    nothing = f"{prefix}/jobs/{UNKNOWN}/checkpoints/details/1"
    for asked, message in (
        (f"{path}/2", "Could not find checkpointing statistics for checkpoint 2."),
        (f"{path}/2/subtasks/{COUNT.vertex_id}", "Could not find checkpointing statistics for checkpoint 2."),
        (f"{path}/1/subtasks/{'e' * 32}", f"There is no checkpoint statistics for task {'e' * 32}."),
        (nothing, f"Job {UNKNOWN} not found"),
    ):
        code, answer = manager.request("GET", asked)
        assert (code, answer["errors"]) == (404, [message])


def test_a_damaged_statistics_file_is_no_statistics(manager):
    job = manager.submit("--finish", "0")
    manager.wait_for(job, "FINISHED")
    eventually(lambda: not manager.request("GET", f"/pystate/jobs/{job}")[1]["driver_running"])
    manager.home.job(job).checkpoints.write_text('{"history": [{"id": 3}]}')

    assert manager.request("GET", f"/jobs/{job}/checkpoints")[1]["counts"]["total"] == 0
    assert manager.request("GET", f"/jobs/{job}/checkpoints/details/3")[0] == 404


@pytest.mark.parametrize("prefix", ["", "/v1"])
def test_the_configuration_of_checkpointing_is_known_also_after_the_end(manager, prefix):
    options = {"execution.checkpointing.interval": "5 s", "execution.checkpointing.dir": "/data"}
    job = manager.submit(configuration=options)
    starting = manager.submit("--init", "60")
    manager.wait_for(job, "RUNNING")
    path = f"{prefix}/jobs/{job}/checkpoints/config"

    code, config = manager.request("GET", path)
    assert (code, config["interval"], config["checkpoint_storage"]) == (200, 5000, "FileSystemCheckpointStorage")
    code, answer = manager.request("GET", f"{prefix}/jobs/{starting}/checkpoints/config")
    assert (code, answer["errors"]) == (404, [f"Checkpointing is not enabled for this job ({starting})."])
    manager.request("PATCH", f"/jobs/{job}")
    manager.wait_for(job, "CANCELED")
    assert manager.request("GET", path) == (200, config)


def test_exceptions_are_counted_out(manager):
    job = manager.submit("--restart", "2", "10", "--die", "0", "7")
    manager.wait_for(job, "FAILED")
    path = f"/jobs/{job}/exceptions"

    history = manager.request("GET", path)[1]["exceptionHistory"]
    assert [one["pystate"]["attempt"] for one in history["entries"]] == [2, 1, 0]
    assert {one["pystate"]["message"] for one in history["entries"]} == {"The driver process ended with exit code 7."}
    assert not history["truncated"]
    history = manager.request("GET", f"{path}?maxExceptions=1")[1]["exceptionHistory"]
    assert ([one["pystate"]["attempt"] for one in history["entries"]], history["truncated"]) == ([2], True)
    for wrong in ("0", "-1", "x", "9" * 30, ""):
        assert manager.request("GET", f"{path}?maxExceptions={wrong}")[0] == 400


def test_progress_is_what_the_driver_says_while_it_lives(manager):
    job = manager.submit("--epochs", "1")
    manager.wait_for(job, "RUNNING")
    path = f"/pystate/jobs/{job}/progress"

    first = eventually(lambda: (now := manager.request("GET", path)[1]) and now["epoch"] and now)
    assert first["records-in"] == 2 * first["records-out"] == 100 * first["epoch"]
    assert eventually(lambda: manager.request("GET", path)[1]["epoch"] > first["epoch"])
    assert manager.request("GET", path, token=False)[0] == 401

    manager.request("PATCH", f"/jobs/{job}")
    manager.wait_for(job, "CANCELED")
    last = manager.request("GET", path)[1]
    assert (last["state"], last["epoch"]) == ("CANCELED", None)


def test_progress_of_a_job_whose_driver_does_not_answer_yet(manager):
    job = manager.submit("--listen-after", "30")

    code, answer = manager.request("GET", f"/pystate/jobs/{job}/progress")

    assert (code, answer["state"], answer["epoch"]) == (200, "INITIALIZING", None)
