"""A server for the Python stages of one execution attempt's query in a slot."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Generic, TypeVar

from pystate.common.configuration.option_types import ANY_PORT
from pystate.common.errors import ControlError
from pystate.common.processes.control import AuthenticatedListener, Peer

Subtasks = TypeVar("Subtasks")


class AttemptServer(ABC, Generic[Subtasks]):
    """Accepts stages that prove that they know a secret.

    Args:
        secret: The secret that a stage must prove that it knows.
        job_id: The job's ID; stages of other jobs are rejected.
        attempt: The execution attempt; stages of other attempts are rejected.
        subtasks: The slot's subtasks, as its stages name them.
        host: The address to bind to; ignored with `path`.
        ports: The first free one of these is used; ignored with `path`.
        path: Bind to a Unix socket at this path instead.

    Attributes:
        thread_name: The name of its threads.
        address: The address of the server.
    """

    thread_name: ClassVar[str]

    def __init__(
        self,
        secret: bytes,
        job_id: str,
        attempt: int,
        subtasks: Subtasks,
        *,
        host: str,
        ports: range = ANY_PORT,
        path: str | None,
    ) -> None:
        self._job_id = job_id
        self._attempt = attempt
        self._subtasks = subtasks
        self._listener = AuthenticatedListener(secret, self.serve, host=host, ports=ports, path=path, name=self.thread_name)
        self.address = self._listener.address

    def start(self) -> None:
        """Start to serve."""
        self._listener.start()

    def close(self) -> None:
        """Stop serving."""
        self._listener.close()

    @abstractmethod
    def serve(self, connection: Peer) -> None:
        """Serve a stage until it disconnects."""

    def check_attempt(self, job_id: str, attempt: int) -> None:
        """Check that a stage belongs to the attempt.

        Raises:
            ControlError: It doesn't.
        """
        if job_id != self._job_id or attempt != self._attempt:
            message = f"This slot serves attempt {self._attempt} of job {self._job_id}, not {attempt} of {job_id}."
            raise ControlError(message)
