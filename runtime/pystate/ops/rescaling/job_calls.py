"""What a rescale asks the job manager by, and tells its progress to."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from pystate.common.errors import PystateError
from pystate.runtime.rest.message import RestMessage

Message = TypeVar("Message", bound=RestMessage)


class Calls(Protocol):
    """What asks the job manager: by REST, or in its own process."""

    def get(self, path: str, kind: type[Message]) -> Message:
        """Return the resource at a path."""

    def post(self, path: str, body: RestMessage, kind: type[Message]) -> Message:
        """Send a POST and return the answer."""

    def patch(self, path: str) -> None:
        """Send a PATCH without a body."""

    def delete(self, path: str) -> None:
        """Send a DELETE."""


class Teller(Protocol):
    """What tells somebody how it goes."""

    def info(self, line: str) -> None:
        """Tell a line."""

    def error(self, error: PystateError) -> None:
        """Tell what has gone wrong; it goes on another way."""

    def result(self, line: str) -> None:
        """Tell the id of the job that runs, where an error is raised after that."""

    def waiting(self, text: str) -> AbstractContextManager[object]:
        """Tell what is waited for, for as long as it lasts."""
