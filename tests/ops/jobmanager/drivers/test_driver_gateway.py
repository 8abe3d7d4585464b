from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from unittest.mock import Mock

import pytest

import pystate
from pystate.common.errors import CheckpointFailedError
from pystate.common.files.home import JobDirectory, PystateHome, new_job_id, read_json, write_json
from pystate.common.processes.control import ControlServer, new_secret
from pystate.ops.jobmanager.drivers.driver_gateway import DriverProtocolError, DriverUnreachableError, call_driver
from pystate.ops.jobmanager.supervision.shared_services import JobManagerSharedServices
from pystate.ops.jobmanager.supervision.supervised_job import SupervisedJob
from pystate.runtime.job_folder.job_record import JobRecord
from tests.waiting import LONGEST_S


@pytest.fixture
def directory(tmp_path) -> Iterator[JobDirectory]:
    directory = PystateHome(tmp_path).job(new_job_id())
    directory.path.mkdir(parents=True)
    directory.secret.write_bytes(new_secret())
    yield directory


def listen(directory: JobDirectory, handler, secret: bytes | None = None) -> None:
    server = ControlServer(secret or directory.secret.read_bytes(), handler)
    server.start()
    write_json(directory.driver, {"pid": 1, "host": server.host, "port": server.port})


def refuse(_request: object) -> None:
    raise CheckpointFailedError("No.", where="here", hint="later")


def test_a_call_returns_what_the_driver_says(directory):
    listen(directory, lambda request: request)

    assert call_driver(directory, "status", timeout=5, x=1) == {"op": "status", "x": 1}


@pytest.mark.parametrize(
    ("version", "named"), [({"pystate_version": "9.0.0"}, "pystate 9.0.0"), ({}, "a version of pystate")]
)
def test_a_driver_of_another_protocol_is_refused_in_a_sentence_and_not_asked(directory, version, named):
    asked = []
    listen(directory, asked.append)
    address = read_json(directory.driver)
    write_json(directory.driver, {**address, "protocol": 9, **version})

    with pytest.raises(DriverProtocolError) as caught:
        call_driver(directory, "stop", timeout=5)

    assert caught.value.message == (
        f"The job's driver (process 1) is of {named} that speaks protocol 9 with job managers; "
        f"this job manager, pystate {pystate.__version__}, speaks 1. The job goes on."
    )
    assert "let one of the driver's version stop the job" in caught.value.hint
    assert asked == []


def test_a_cancel_of_a_job_whose_driver_cannot_be_told_is_refused_and_the_job_goes_on(manager):
    job = manager.submit()
    manager.wait_for(job, "RUNNING")
    place = manager.home.job(job).driver
    address = read_json(place)
    write_json(place, {**address, "protocol": 9, "pystate_version": "9.0.0"})

    status, answer = manager.request("PATCH", f"/jobs/{job}?mode=cancel")

    assert status == 503, answer
    assert "speaks protocol 9 with job managers" in str(answer)
    assert manager.state(job) == "RUNNING"
    assert not read_json(manager.home.job(job).path / "record.json")["cancel_requested"], "nor is it cancelled later"
    write_json(place, address)
    assert manager.request("PATCH", f"/jobs/{job}?mode=cancel")[0] == 202
    manager.wait_for(job, "CANCELED")


def test_a_driver_of_a_version_that_did_not_say_its_protocol_speaks_the_first(directory):
    listen(directory, lambda request: request)

    assert "protocol" not in read_json(directory.driver)
    assert call_driver(directory, "status", timeout=5) == {"op": "status"}


def test_what_the_driver_refuses_is_raised_as_it_is(directory):
    listen(directory, refuse)

    with pytest.raises(CheckpointFailedError) as caught:
        call_driver(directory, "stop", timeout=5)

    assert (caught.value.message, caught.value.where, caught.value.hint) == ("No.", "here", "later")


def test_a_driver_that_has_not_said_where_it_listens_still_starts(directory):
    with pytest.raises(DriverUnreachableError, match="still starting"):
        call_driver(directory, "status", timeout=5)


def test_a_process_with_another_secret_is_not_our_driver(directory):
    listen(directory, lambda request: request, new_secret())

    with pytest.raises(DriverUnreachableError, match="can't be reached"):
        call_driver(directory, "status", timeout=5)


def test_a_driver_that_accepts_and_stays_silent_is_given_up(directory):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        write_json(directory.driver, {"pid": 1, "host": "127.0.0.1", "port": silent.getsockname()[1]})
        began = time.monotonic()
        with pytest.raises(DriverUnreachableError, match="can't be reached"):
            call_driver(directory, "status", timeout=0.3)

    assert time.monotonic() - began > 0.2


def test_a_driver_that_proves_itself_and_never_answers_is_given_up(directory):
    over = threading.Event()
    listen(directory, lambda _request: over.wait(LONGEST_S) and None)

    began = time.monotonic()
    with pytest.raises(DriverUnreachableError, match="did not answer 'status' within"):
        call_driver(directory, "status", timeout=0.3)

    assert time.monotonic() - began > 0.2
    over.set()


def test_that_a_driver_does_not_answer_is_logged_once(directory, caplog):
    job = SupervisedJob(JobRecord(directory.path.name, "job", 1), directory, JobManagerSharedServices(Mock()))
    with caplog.at_level("INFO"):
        for _ in range(5):
            job.progress()
        listen(directory, lambda request: {"epoch": 3})
        assert job.progress()["epoch"] == 3
        directory.driver.unlink()
        job.progress()
    assert ["still starting" in record.message for record in caplog.records] == [True, True]
