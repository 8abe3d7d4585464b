"""The job manager's side of the proofs with which programs of other homes register their jobs."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence

import pystate
from pystate.common.bounded_dict import BoundedDict
from pystate.common.errors import UsageError
from pystate.common.processes.job_manager_proofs import (
    JOB_MANAGER,
    PROGRAM,
    REGISTRATION_PROTOCOL,
    control_secret,
    is_proof,
    new_nonce,
    proof_of,
)
from pystate.common.text.plain_data import PlainDataError
from pystate.ops.jobmanager.registration.registered_jobs import RegisteredJobs
from pystate.runtime.job_folder.registration import Registration, SecretRefusedError
from pystate.runtime.rest.registration_messages import ProvenMessage, RegistrationChallenge

_VALID_SECONDS = 60.0
_MOST_CHALLENGES = 4096


class Registrations:
    """Gives challenges, and takes what proves a token over one. Thread-safe.

    Args:
        tokens: The tokens that a program may prove.
        instance: Random digits of this job manager's process.
        clock: Returns seconds of a monotonic clock.
    """

    def __init__(self, tokens: Sequence[str] = (), instance: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        self._tokens = tokens
        self._instance = instance
        self._lock = threading.Lock()
        self._open: BoundedDict[str, bool] = BoundedDict(_MOST_CHALLENGES, _VALID_SECONDS, clock)

    def challenge(self) -> RegistrationChallenge:
        """Return a challenge, which is good once."""
        challenge = new_nonce()
        with self._lock:
            self._open.put(challenge, True)  # noqa: FBT003 - it is open
        version = pystate.__version__
        return RegistrationChallenge(
            challenge=challenge, protocol=REGISTRATION_PROTOCOL, pystate_version=version, instance=self._instance
        )

    def register(self, said: ProvenMessage, jobs: RegisteredJobs) -> ProvenMessage:
        """Take what a program tells of its job.

        Args:
            said: What it tells.
            jobs: Who takes it.

        Raises:
            SecretRefusedError: It proves no secret of this job manager, or has proved it before.
            PystateError: The job isn't taken.
        """
        proved = [token for token in self._tokens if is_proof(said.proof, token, PROGRAM, said.message)]
        if not proved:
            message = "The program doesn't prove the secret of this job manager."
            raise SecretRefusedError(message)
        try:
            registration = Registration.from_plain(json.loads(said.message))
        except (ValueError, RecursionError, PlainDataError) as error:
            message = f"The registration can't be read: {error}."
            raise UsageError(message) from error
        if not self._is_open(registration.challenge):
            message = "The challenge of the registration is not known, or too old."
            raise SecretRefusedError(message)
        secret = control_secret(proved[0], registration.job_id, registration.control_nonce, encrypted=registration.encrypted)
        text = json.dumps(jobs.register(registration, secret).to_plain())
        return ProvenMessage(message=text, proof=proof_of(proved[0], JOB_MANAGER, text))

    def _is_open(self, challenge: str) -> bool:
        with self._lock:
            is_open = self._open.get(challenge) is not None  # which looks at its age
            self._open.pop(challenge)
        return is_open
