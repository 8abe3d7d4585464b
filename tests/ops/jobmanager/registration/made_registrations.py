"""Registrations of a job of a program elsewhere, made without a program."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from pystate.common.job_status import JobStatus
from pystate.common.processes.job_manager_proofs import PROGRAM, proof_of
from pystate.ops.jobmanager.registration.registrations import Registrations
from pystate.runtime.job_folder.job_status_file import JobStatusFile
from pystate.runtime.job_folder.registration import Registration, file_to_text
from pystate.runtime.job_folder.small_files import DriverAddressFile, EmbeddedProgramFile
from pystate.runtime.rest.registration_messages import ProvenMessage
from tests.ops.jobmanager.rest.in_process import InProcess

JOB = "ab" * 16
TOKEN = "t" * 32


def registration(challenge: str, **changes: Any) -> Registration:
    made = Registration(
        challenge,
        "nonce",
        JOB,
        "first",
        1,
        "0",
        "control",
        encrypted=False,
        driver=DriverAddressFile(1, "127.0.0.1", 1),
        program=EmbeddedProgramFile(1, "there", "another/1", None, "/there/job.py", JOB),
        home="there:/home",
        log="there:/home/jobs/log",
        whole=True,
        ended=False,
        files={"status.json": file_to_text(json.dumps(status_file(JobStatus.RUNNING)).encode())},
    )
    return replace(made, **changes)


def status_file(state: JobStatus) -> dict[str, Any]:
    begun = JobStatusFile.begun("counts", 1)
    for one in (JobStatus.CREATED, JobStatus.RUNNING, state):
        begun = begun if begun.state is one else begun.moved_to(one, 2)
    return begun.to_file()


def ended_files(state: JobStatus) -> dict[str, str]:
    """Return what a program sends of a job that has ended."""
    return {"status.json": file_to_text(json.dumps(status_file(state)).encode())}


def say(registrations: Registrations, said: Registration, served: InProcess, token: str = TOKEN) -> dict[str, Any]:
    """Return the answer to a registration."""
    return dict(json.loads(registrations.register(proven(said, token), served.dispatcher.registered).message))


def told(served: InProcess, **changes: Any) -> dict[str, Any]:
    """Return the answer to a registration that is made for a challenge."""
    registrations = Registrations([TOKEN])
    return say(registrations, registration(registrations.challenge().challenge, **changes), served)


def proven(said: Registration, token: str = TOKEN) -> ProvenMessage:
    """Return what is sent of it."""
    text = json.dumps(said.to_plain())
    return ProvenMessage(message=text, proof=proof_of(token, PROGRAM, text))
