"""A program of another home registers its job: it is listed, takes commands, is shown lost, and is never started again."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import JobTerminatedError, PystateError, UsageError
from pystate.common.files.home import PystateHome
from pystate.common.job_status import JobStatus
from pystate.common.processes.job_manager_proofs import control_secret, hello_header, is_hello, proof_of
from pystate.common.processes.processes import started_at, this_machine
from pystate.ops.jobmanager.registration.registrations import Registrations
from pystate.runtime.driver import job_manager_client
from pystate.runtime.driver.job_manager_client import JobManagerClient, JobManagerRefusesError, JobManagerUnreachableError
from pystate.runtime.driver.registered_program import JobManagerTerms, RegisteredProgram
from pystate.runtime.job_folder.registration import RegistrationRefusedError, SecretRefusedError, file_to_text
from pystate.runtime.job_folder.small_files import DriverAddressFile, EmbeddedProgramFile
from tests.ops.jobmanager.harness import ManagerThread
from tests.ops.jobmanager.registration.made_registrations import JOB, TOKEN, registration, say, status_file, told
from tests.ops.jobmanager.registration.programs import Start, refused, runs
from tests.ops.jobmanager.rest.in_process import HOME_TOKEN, InProcess
from tests.waiting import wait_until as eventually


def _listed(manager: ManagerThread) -> list[tuple[str, str, int]]:
    jobs = manager.request("GET", "/jobs/overview")[1]["jobs"]
    return [(job["name"], job["state"], job["pystate"]["embedded"]["pid"]) for job in jobs]


def test_a_program_of_another_home_is_listed_and_its_end_is_known(
    manager: ManagerThread, start: Start, tmp_path: Path
) -> None:
    program = runs(start(manager.port))
    eventually(lambda: _listed(manager) == [("counts", "RUNNING", program.pid)])
    told = manager.request("GET", f"/pystate/jobs/{JOB}/log?offset=0")[1].decode()
    assert str(tmp_path / "elsewhere" / "jobs" / JOB / "job.log") in told
    program.communicate(b"\n")
    assert manager.state(JOB) == "FINISHED"
    assert not manager.home.job(JOB).record.exists()


def test_it_takes_savepoints_and_is_cancelled_by_the_job_manager(
    manager: ManagerThread, start: Start, tmp_path: Path
) -> None:
    program = runs(start(manager.port))
    eventually(lambda: manager.state(JOB) == "RUNNING")
    status, answer = manager.request(
        "POST", f"/jobs/{JOB}/savepoints", {"target-directory": str(tmp_path), "cancel-job": False}
    )
    assert status == 202, answer
    assert manager.operation(JOB, answer["request-id"])["location"] == f"{tmp_path}/savepoint-1"
    assert manager.request("PATCH", f"/jobs/{JOB}?mode=cancel")[0] == 202
    eventually(lambda: manager.state(JOB) == "CANCELED")
    program.communicate(b"\n")
    assert manager.operation(JOB, answer["request-id"])["location"] == f"{tmp_path}/savepoint-1"  # though it has gone


def test_a_program_that_exits_first_tells_of_the_end_of_its_job(manager: ManagerThread, start: Start) -> None:
    program = runs(start(manager.port))
    eventually(lambda: manager.state(JOB) == "RUNNING")
    program.communicate(b"exit\n")
    assert manager.state(JOB) == "FINISHED"


def test_the_secret_is_never_sent(manager: ManagerThread, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sent: list[str] = []
    real = job_manager_client.http.client.HTTPConnection.request

    def noted(self: Any, *arguments: Any) -> None:
        sent.append(repr(arguments))
        real(self, *arguments)

    monkeypatch.setattr(job_manager_client.http.client.HTTPConnection, "request", noted)
    token = manager.home.token.read_text().strip()
    JobManagerClient([f"127.0.0.1:{manager.port}"], token).challenge(JOB, "1")
    assert sent
    assert token not in "".join(sent)


def test_a_program_that_is_killed_is_shown_lost_and_none_is_started_in_its_place(
    manager: ManagerThread, start: Start
) -> None:
    program = runs(start(manager.port))
    eventually(lambda: manager.state(JOB) == "RUNNING")
    program.kill()
    program.communicate()
    eventually(lambda: manager.state(JOB) == "FAILED")
    said = str(manager.request("GET", f"/jobs/{JOB}/exceptions")[1]["exceptionHistory"])
    assert f"process {program.pid}" in said
    assert (
        f"started elsewhere, and this job manager starts no other one: start it again there, with pystate.job-id = {JOB}"
        in said
    )
    again = runs(start(manager.port))  # with the same id: it isn't refused, and takes the place
    eventually(lambda: _listed(manager) == [("counts", "RUNNING", again.pid)])


def test_a_job_manager_that_comes_back_has_the_job_again_and_so_has_one_that_knows_nothing(
    tmp_path: Path, start: Start
) -> None:
    first = ManagerThread(tmp_path / "home")
    first.start()
    port = first.port
    program = runs(start(port))
    eventually(lambda: first.state(JOB) == "RUNNING")
    first.stop()
    token = tmp_path / "home" / "token"
    other = ManagerThread(tmp_path / "other")
    other.home.root.mkdir()
    shutil.copy(token, other.home.token)
    other.start(port=port)
    try:
        eventually(lambda: _listed(other) == [("counts", "RUNNING", program.pid)])
    finally:
        other.stop()
    third = ManagerThread(tmp_path / "home")
    third.start(port=port)
    try:
        assert _listed(third) == [("counts", "RUNNING", program.pid)]
        program.communicate(b"\n")
        eventually(lambda: third.state(JOB) == "FINISHED")
    finally:
        third.stop()


def test_connections_to_a_registered_program_are_encrypted_where_that_is_configured(
    manager: ManagerThread, start: Start
) -> None:
    runs(start(manager.port, **{"security.ssl.internal.enabled": "true"}))
    eventually(lambda: manager.state(JOB) == "RUNNING")
    assert b"PRIVATE KEY" in manager.home.job(JOB).secret.read_bytes()
    assert manager.request("PATCH", f"/jobs/{JOB}?mode=cancel")[0] == 202
    eventually(lambda: manager.state(JOB) == "CANCELED")


def test_a_program_with_another_secret_is_refused_before_it_has_a_job(
    manager: ManagerThread, start: Start, tmp_path: Path
) -> None:
    other = tmp_path / "other-token"
    other.write_text("0" * 64)
    said = refused(start(manager.port, token=other))
    assert "doesn't share the secret of this program" in said
    assert "pystate.rest.token-file" in said
    assert _listed(manager) == []


def test_a_second_program_with_the_same_id_is_refused(manager: ManagerThread, start: Start) -> None:
    first = runs(start(manager.port))
    said = refused(start(manager.port, home="third"))
    assert f"runs already, in process {first.pid}" in said
    first.communicate(b"\n")
    assert "has FINISHED, so it isn't run again" in refused(start(manager.port, home="third"))


def test_a_job_that_the_job_manager_has_started_can_not_be_registered(served: InProcess) -> None:
    job_id = served.submit()
    with pytest.raises(RegistrationRefusedError, match="one that this job manager has started"):
        served.dispatcher.registered.check(job_id, "1")


def test_a_host_that_nobody_knows_is_named_with_what_to_do(tmp_path: Path) -> None:
    home = PystateHome(tmp_path)
    home.token.write_text("0" * 64)
    with pytest.raises(PystateError, match=r"Nobody knows the host no\.such\.host\.invalid of the job manager") as refused:
        JobManagerTerms.of(Configuration({"pystate.jobmanager.address": "no.such.host.invalid:8081"}), home)
    assert "PYSTATE_JOBMANAGER" in str(refused.value.hint)


def test_a_home_without_a_secret_is_told_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(PystateError, match="There is no secret to prove"):
        JobManagerTerms.of(Configuration({"pystate.jobmanager": "127.0.0.1:8081"}), PystateHome(tmp_path))


def test_the_environment_names_the_job_manager_where_no_option_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = PystateHome(tmp_path)
    assert JobManagerTerms.of(Configuration(), home) is None
    home.token.write_text("0" * 64)
    monkeypatch.setenv("PYSTATE_JOBMANAGER", "127.0.0.1:1, 127.0.0.1:2")
    terms = JobManagerTerms.of(Configuration(), home)
    assert terms is not None
    assert terms.addresses == ["127.0.0.1:1", "127.0.0.1:2"]
    assert terms.host == "127.0.0.1"
    monkeypatch.setenv("PYSTATE_JOBMANAGER", "127.0.0.1:1\n27.0.0.1:2")
    with pytest.raises(UsageError) as raised:
        JobManagerTerms.of(Configuration(), home)
    assert raised.value.where == "PYSTATE_JOBMANAGER"


@pytest.mark.parametrize("required", [True, False])
def test_a_job_manager_that_does_not_answer_refuses_the_job_or_not(tmp_path: Path, required: bool) -> None:
    home = PystateHome(tmp_path)
    home.token.write_text("0" * 64)
    settings = {"pystate.jobmanager.address": "127.0.0.1:1", "pystate.jobmanager.required": str(required).lower()}
    configuration = Configuration(settings)
    terms = JobManagerTerms.of(configuration, home)
    assert terms is not None
    program = RegisteredProgram(terms, terms.client(configuration), JOB, home, home.job(JOB), JOB)
    if not required:
        program.check(seconds=0)
        return
    with pytest.raises(JobManagerUnreachableError) as raised:
        program.check(seconds=0)
    assert "pystate.jobmanager.required = false" in str(raised.value)


def test_a_job_manager_of_another_protocol_is_named(manager: ManagerThread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_manager_client, "REGISTRATION_PROTOCOL", 2)
    client = JobManagerClient([f"127.0.0.1:{manager.port}"], manager.home.token.read_text().strip())
    with pytest.raises(RegistrationRefusedError, match="speaks protocol 1 with programs that register; .* speaks 2"):
        client.challenge(JOB, "1")


def test_the_job_manager_that_leads_is_found_through_one_that_does_not(
    manager: ManagerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = JobManagerClient(["127.0.0.1:1", "127.0.0.1:2"], manager.home.token.read_text().strip())
    real = client._call

    def call(address: str, method: str, path: str, body: Any) -> Any:
        if address == "127.0.0.1:2" and method == "GET":
            return {"pystate-leader": {"address": f"127.0.0.1:{manager.port}", "instance": "1"}, **_config(manager)}
        if address == "127.0.0.1:2":
            message = "It doesn't lead."
            raise JobManagerRefusesError(message)
        return real(address, method, path, body)

    monkeypatch.setattr(client, "_call", call)
    assert client.challenge(JOB, "1").challenge
    assert client.address == f"127.0.0.1:{manager.port}"


def test_a_job_manager_without_a_port_is_looked_for_at_flinks_which_is_said() -> None:
    with pytest.raises(JobManagerUnreachableError, match="No port was given, so it was looked for at 8081"):
        JobManagerClient(["127.255.255.1"], "0" * 32).challenge(JOB, "1")
    with pytest.raises(JobManagerUnreachableError) as raised:
        JobManagerClient(["127.255.255.1:8081"], "0" * 32).challenge(JOB, "1")
    assert "No port" not in str(raised.value)


def _config(manager: ManagerThread) -> dict[str, Any]:
    return dict(manager.request("GET", "/config")[1])


def test_a_registration_counts_once_and_not_after_its_time(served: InProcess) -> None:
    now = [0.0]
    registrations = Registrations([TOKEN], "1", lambda: now[0])
    said = registration(registrations.challenge().challenge)
    assert say(registrations, said, served)["reachable"] is False
    for again in (said, registration("of its own")):
        with pytest.raises(SecretRefusedError, match="not known, or too old"):
            say(registrations, again, served)
    late = registration(registrations.challenge().challenge)
    now[0] = 61.0
    with pytest.raises(SecretRefusedError, match="not known, or too old"):
        say(registrations, late, served)
    with pytest.raises(SecretRefusedError, match="doesn't prove the secret"):
        say(registrations, registration(registrations.challenge().challenge), served, token="u" * 32)


def test_a_program_that_can_not_be_reached_is_told_so_and_is_shown_all_the_same(served: InProcess) -> None:
    answer = told(served)
    assert (answer["reachable"], "can't be reached" in answer["reason"]) == (False, True)
    (job,) = served.dispatcher.jobs()
    assert job.state() is JobStatus.RUNNING
    with pytest.raises(PystateError) as raised:
        job.runner.cancel()
    assert "on there, can't be reached from here" in str(raised.value)
    assert "PYSTATE_HOME=/home" in str(raised.value)
    assert job.state() is JobStatus.RUNNING


def test_a_program_of_another_machine_is_lost_by_its_silence_and_is_back_with_a_word(served: InProcess) -> None:
    told(served)
    (job,) = served.dispatcher.jobs()
    now = [job._observed()]
    job._observed = lambda: now[0]
    now[0] += 49_000
    assert served.dispatcher.job(JOB).state() is JobStatus.RUNNING
    now[0] += 3_000
    lost = served.dispatcher.job(JOB)
    assert lost.state() is JobStatus.FAILED
    assert "no sign of life for 5" in str(lost.status()["failure"])
    assert told(served, whole=False, files={})["wanted"] is True
    assert not told(served)["wanted"]
    assert served.dispatcher.job(JOB).state() is JobStatus.RUNNING


def test_a_program_of_this_machine_is_known_by_its_process_however_long_it_is_silent(served: InProcess) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        host, machine = socket.gethostname(), this_machine()
        told(served, program=EmbeddedProgramFile(process.pid, host, machine, started_at(process.pid), "/there/job.py", JOB))
        (job,) = served.dispatcher.jobs()
        job._observed = lambda: 3_600_000
        assert served.dispatcher.job(JOB).state() is JobStatus.RUNNING
    assert served.dispatcher.job(JOB).state() is JobStatus.FAILED
    assert "ended before the job" in str(served.dispatcher.job(JOB).status()["failure"])


def test_another_start_of_the_program_is_refused_while_the_first_is_heard_of_and_after_its_end(served: InProcess) -> None:
    told(served)
    with pytest.raises(RegistrationRefusedError, match="runs already, in process 1 on there"):
        told(served, incarnation="second")
    ended = {"status.json": file_to_text(json.dumps(status_file(JobStatus.FINISHED)).encode())}
    told(served, whole=False, ended=True, files=ended)
    assert served.dispatcher.job(JOB).driver_is_gone
    with pytest.raises(JobTerminatedError, match="has FINISHED, so it isn't run again"):
        told(served, incarnation="second")


def test_another_start_is_taken_after_one_that_failed_since_its_spark_was_lost(served: InProcess) -> None:
    told(served)
    failure = {"class": "SparkLostError", "message": "It is gone.", "where": None, "hint": None, "stack_trace": ""}
    status = {**status_file(JobStatus.FAILED), "failure": failure}
    told(served, whole=False, ended=True, files={"status.json": file_to_text(json.dumps(status).encode())})
    assert served.dispatcher.job(JOB).state() is JobStatus.FAILED
    told(served, incarnation="second")
    assert served.dispatcher.job(JOB).state() is JobStatus.RUNNING


@pytest.mark.parametrize("name", ["operations/../../record.json", "operations/x.json"])
def test_a_file_that_is_none_of_a_job_is_refused(served: InProcess, name: str) -> None:
    with pytest.raises((RegistrationRefusedError, UsageError)):
        told(served, files={name: file_to_text(b"{}")})


VERTEX = {"id": JOB, "uid": "count", "name": "count", "parallelism": 1, "status": "RUNNING"}


def _with(**changes: Any) -> dict[str, str]:
    return {"status.json": file_to_text(json.dumps({**status_file(JobStatus.RUNNING), **changes}).encode())}


@pytest.mark.parametrize(
    "changes",
    [
        {"program": EmbeddedProgramFile(2**40, "there", "another/1", None, "/there/job.py", JOB)},
        {"program": EmbeddedProgramFile(-1, "there", "another/1", None, "/there/job.py", JOB)},
        {"program": EmbeddedProgramFile(1, "there", "another/1", None, "/there/job.py", "../../etc")},
        {"program": EmbeddedProgramFile(1, "the\nre", "another/1", None, "/there/job.py", JOB)},
        {"driver": DriverAddressFile(1, "127.0.0.1", 70_000)},
        {"driver": DriverAddressFile(1, "127.0.0.1\0", 1)},
        {"interval_ms": 0},
        {"interval_ms": 2**60},
        {"log": "there:\ud800"},
        {"home": "there:" + "x" * 5000},
        {"job_id": "ab"},
        {"files": _with(start_time=2**62)},
        {"files": _with(attempt=-1)},
        {"files": _with(timestamps={"RUNNING": 2**62})},
        {"files": _with(timestamps={})},
        {"files": _with(state="WELL")},
        {"files": _with(vertices=[{**VERTEX, "parallelism": 2**40}])},
        {"files": {"status.json": file_to_text(b"[" * 100_000)}},
        {"files": {"status.json": file_to_text(b"{}")}},
        {"files": {"metrics.json": file_to_text(b"{")}},
        {"files": {f"operations/{JOB}.json": file_to_text(b"{}")}},
    ],
)
def test_forged_registrations_are_refused_by_a_sentence_and_leave_nothing(
    served: InProcess, changes: dict[str, Any]
) -> None:
    with pytest.raises((RegistrationRefusedError, UsageError)) as raised:
        told(served, **changes)
    assert raised.value.message
    assert not list(served.dispatcher.home.jobs.iterdir())


def test_a_message_with_half_a_character_is_refused(served: InProcess) -> None:
    hello = {"Authorization": hello_header(HOME_TOKEN)}
    body = b'{"message": "\\ud800", "proof": "0"}'
    answer = served.client.post("/pystate/registrations", content=body, headers=hello)
    assert answer.status_code == 400, answer.text


def test_a_later_version_may_send_more(served: InProcess) -> None:
    status = registration("").files
    told(served, files={**status, "of-tomorrow.json": file_to_text(b"{}")})
    assert not (served.dispatcher.home.job(JOB).path / "of-tomorrow.json").exists()


def test_a_program_of_another_protocol_is_refused(served: InProcess) -> None:
    with pytest.raises(RegistrationRefusedError, match="speaks protocol 9 with job managers"):
        told(served, protocol=9)


def test_a_proof_is_for_one_purpose_and_a_computed_certificate_is_the_same_on_both_sides() -> None:
    assert is_hello(hello_header(TOKEN), TOKEN)
    assert not is_hello(hello_header("u" * 32), TOKEN)
    assert not is_hello(f"Bearer {TOKEN}", TOKEN)
    assert proof_of(TOKEN, "a", "text") != proof_of(TOKEN, "b", "text")
    assert control_secret(TOKEN, JOB, "1", encrypted=True) == control_secret(TOKEN, JOB, "1", encrypted=True)
    assert control_secret(TOKEN, JOB, "1", encrypted=True) != control_secret(TOKEN, JOB, "2", encrypted=True)
    assert control_secret(TOKEN, JOB, "1", encrypted=False) != control_secret(TOKEN, "cd" * 16, "1", encrypted=False)
