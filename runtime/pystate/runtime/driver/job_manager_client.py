"""The client with which a program registers its job with a job manager, to which it proves a secret that it never sends."""

from __future__ import annotations

import http.client
import json
import socket
from typing import TYPE_CHECKING, Any

import pystate
from pystate.common.configuration.groups.pystate_options import PystateOptions
from pystate.common.configuration.groups.security_options import SecurityOptions
from pystate.common.errors import ConfigurationError, ControlError, PystateError, error_from_dict
from pystate.common.processes.job_manager_address import DEFAULT_PORT, has_port, parse_address
from pystate.common.processes.job_manager_proofs import (
    JOB_MANAGER,
    PROGRAM,
    REGISTRATION_PROTOCOL,
    hello_header,
    is_proof,
    proof_of,
)
from pystate.common.text.plain_data import PlainDataError
from pystate.runtime.job_folder.registration import (
    Registration,
    RegistrationAnswer,
    RegistrationRefusedError,
    SecretRefusedError,
)
from pystate.runtime.rest.cluster_messages import StandbyConfiguration
from pystate.runtime.rest.message import UnreadableAnswerError
from pystate.runtime.rest.registration_messages import ChallengeRequestBody, ProvenMessage, RegistrationChallenge

if TYPE_CHECKING:
    import ssl

_TIMEOUT_S = 20.0
_MOST_ANSWER_BYTES = 1 << 20
_CHALLENGES = "/pystate/registrations/challenges"
_REGISTRATIONS = "/pystate/registrations"
_CLIENT_HEADER = "pystate-client"
_NOT_FOUND, _UNAUTHORIZED, _FOR_A_WHILE = 404, 401, (503, 507)


class JobManagerUnreachableError(ControlError):
    """No job manager that leads answers."""


def unknown_host(host: str, error: OSError) -> ConfigurationError:
    """Return the error that nobody knows the host of a job manager."""
    message = f"Nobody knows the host {host} of the job manager: {error.strerror}."
    hint = "give HOST:PORT with a host that this machine can resolve, by this option or PYSTATE_JOBMANAGER"
    return ConfigurationError(message, where=PystateOptions.JOBMANAGER_ADDRESS.key, hint=hint)


class JobManagerRefusesError(JobManagerUnreachableError):
    """A job manager answers that it takes no programs at the moment: it doesn't lead, or its disk is full."""


class JobManagerClient:
    """Talks to whichever of some job managers leads. For one thread at a time.

    Args:
        addresses: Where they may be: `host:port`, or `host:port/path`.
        token: What both sides prove.
        tls: How to speak TLS; None for none.

    Attributes:
        address: The one that has answered last; the first one before that.
    """

    def __init__(self, addresses: list[str], token: str, tls: ssl.SSLContext | None = None) -> None:
        self._addresses = addresses
        self._token = token
        self._tls = tls
        self.address = addresses[0]

    def challenge(self, job_id: str, incarnation: str) -> RegistrationChallenge:
        """Ask the job manager that leads what the secret is to be proved over.

        Args:
            job_id: The job.
            incarnation: Random digits of this start of its program.

        Raises:
            JobManagerUnreachableError: None answers.
            ConfigurationError: Nobody knows the host.
            SecretRefusedError: It has another secret.
            RegistrationRefusedError: It speaks another protocol, or another program runs the job.
        """
        body = ChallengeRequestBody(job_id=job_id, incarnation=incarnation).to_plain()
        unreachable: PystateError | None = None
        for address in [self.address, *(address for address in self._addresses if address != self.address)]:
            try:
                challenge = self._challenged_at(address, body)
            except JobManagerUnreachableError as error:
                unreachable = unreachable or error
                continue
            self._check_protocol(challenge)
            return challenge
        assert unreachable is not None  # noqa: S101 - there is an address
        raise unreachable

    def register(self, registration: Registration) -> RegistrationAnswer:
        """Tell the job manager that has given the challenge; return its answer.

        Raises:
            JobManagerUnreachableError: It doesn't answer.
            SecretRefusedError: One side doesn't prove the secret.
            RegistrationRefusedError: It doesn't take the job.
        """
        text = json.dumps(registration.to_plain())
        said = ProvenMessage(message=text, proof=proof_of(self._token, PROGRAM, text))
        answer = ProvenMessage.from_plain(self._call(self.address, "POST", _REGISTRATIONS, said.to_plain()))
        try:
            if is_proof(answer.proof, self._token, JOB_MANAGER, answer.message):
                told = RegistrationAnswer.from_plain(json.loads(answer.message))
                if told.nonce == registration.nonce:
                    return told
        except (ValueError, PlainDataError) as error:
            message = f"The job manager's answer can't be read: {error}."
            raise UnreadableAnswerError(message, where=self.address) from error
        message = f"What answers at {self.address} doesn't prove the secret: it is not the job manager that it should be."
        raise SecretRefusedError(message, where=PystateOptions.JOBMANAGER_ADDRESS.key)

    def _challenged_at(self, address: str, body: Any) -> RegistrationChallenge:
        """Return the challenge of a job manager, or of the leader that it tells of."""
        self.address = address
        try:
            return RegistrationChallenge.from_plain(self._call(address, "POST", _CHALLENGES, body))
        except JobManagerRefusesError:
            leader = self._leader(address)
            if not leader:
                raise
        self.address = leader
        return RegistrationChallenge.from_plain(self._call(leader, "POST", _CHALLENGES, body))

    def _leader(self, address: str) -> str | None:
        """Return which job manager leads, as one that doesn't tells; None if it tells of none."""
        try:
            found = StandbyConfiguration.from_plain(self._call(address, "GET", "/config", None)).pystate_leader
        except PystateError:
            return None
        return None if found is None else found.address

    def _check_protocol(self, challenge: RegistrationChallenge) -> None:
        if challenge.protocol == REGISTRATION_PROTOCOL:
            return
        message = (
            f"The job manager at {self.address} is of pystate {challenge.pystate_version}, which speaks protocol "
            f"{challenge.protocol} with programs that register; this one, pystate {pystate.__version__}, speaks "
            f"{REGISTRATION_PROTOCOL}."
        )
        raise RegistrationRefusedError(
            message, where=PystateOptions.JOBMANAGER_ADDRESS.key, hint="take the same version for both"
        )

    def _call(self, address: str, method: str, path: str, body: Any) -> Any:
        host, port, prefix = parse_address(address)
        headers = {
            "Content-Type": "application/json",
            "Authorization": hello_header(self._token),
            _CLIENT_HEADER: pystate.__version__,
        }
        connection = (
            http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)
            if self._tls is None
            else http.client.HTTPSConnection(host, port, timeout=_TIMEOUT_S, context=self._tls)
        )
        try:
            connection.request(method, f"{prefix}{path}", None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            content = answer.read(_MOST_ANSWER_BYTES)
        except socket.gaierror as error:
            raise unknown_host(host, error) from error
        except (OSError, http.client.HTTPException) as error:
            untold = "" if has_port(address) else f" No port was given, so it was looked for at {DEFAULT_PORT}."
            message = f"The job manager at {address} doesn't answer: {error}.{untold}"
            raise JobManagerUnreachableError(message, where=PystateOptions.JOBMANAGER_ADDRESS.key) from error
        finally:
            connection.close()
        try:
            plain = json.loads(content) if content else {}
        except ValueError:
            plain = {}
        if answer.status < http.client.BAD_REQUEST:
            return plain
        raise self._refusal(answer.status, plain, address)

    def _refusal(self, status: int, plain: Any, address: str) -> PystateError:
        where = PystateOptions.JOBMANAGER_ADDRESS.key
        if status == _UNAUTHORIZED:
            message = f"The job manager at {address} doesn't share the secret of this program."
            key = SecurityOptions.REST_TOKEN_FILE.key
            hint = f"set {key} to the file that the job manager has there, or copy its home's file token to this home"
            return SecretRefusedError(message, where=key, hint=hint)
        ours = plain.get("pystate") if isinstance(plain, dict) else None
        told = error_from_dict(ours) if isinstance(ours, dict) else None
        if status in _FOR_A_WHILE:
            message = f"The job manager at {address} takes no programs at the moment: {told.message if told else status}"
            return JobManagerRefusesError(message, where=(told and told.where) or where, hint=told.hint if told else None)
        if told is not None:
            return told
        if status == _NOT_FOUND:
            message = f"What answers at {address} registers no programs: it is no job manager, or one of an older version."
            hint = f"this program has pystate {pystate.__version__}: take the same version for the job manager"
            return RegistrationRefusedError(message, where=where, hint=hint)
        return RegistrationRefusedError(f"{address} answers with HTTP status {status} and no explanation.", where=where)
