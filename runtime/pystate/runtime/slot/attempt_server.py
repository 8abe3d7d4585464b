"""What serves the Python stages of one execution attempt's query in a slot, and nobody else."""

from __future__ import annotations

from abc import ABC, abstractmethod

from pystate.common.configuration.option_types import ANY_PORT
from pystate.common.errors import ControlError
from pystate.common.processes.control import AuthenticatedListener, Peer


class AttemptServer(ABC):
    """Listens for stages that prove a secret.

    Args:
        secret: What a stage must prove.
        job_id: Stages of other jobs are refused.
        attempt: So are those of other execution attempts.
        host: The address to bind to; ignored with `path`.
        name: Of its threads.
        ports: The first of these that is free is taken; ignored with `path`.
        path: Bind to a Unix socket at this path instead.

    Attributes:
        address: Where it can be reached.
    """

    def __init__(
        self, secret: bytes, job_id: str, attempt: int, *, host: str, name: str, ports: range = ANY_PORT, path: str | None
    ) -> None:
        self._job_id = job_id
        self._attempt = attempt
        self._listener = AuthenticatedListener(secret, self.serve, host=host, ports=ports, path=path, name=name)
        self.address = self._listener.address

    def start(self) -> None:
        """Begin to serve."""
        self._listener.start()

    def close(self) -> None:
        """Stop serving."""
        self._listener.close()

    @abstractmethod
    def serve(self, connection: Peer) -> None:
        """Serve a stage until it is gone."""

    def check_attempt(self, job_id: str, attempt: int) -> None:
        """Make sure that a stage is one of the attempt's.

        Raises:
            ControlError: It isn't.
        """
        if job_id != self._job_id or attempt != self._attempt:
            message = f"This slot serves attempt {self._attempt} of job {self._job_id}, not {attempt} of {job_id}."
            raise ControlError(message)
