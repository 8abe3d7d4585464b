"""What a sink asks of a service, and how that went."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple


@dataclass(eq=False)
class Request:
    """One element on its way.

    Attributes:
        key: Requests of a key are done in their order; None for one without an order.
        payload: What the client sends.
        size: Its size in bytes.
        body: The bytes that become a dead letter, should the service refuse them.
        timestamp: The element's, ms since 1970; None if it has none.
        tries: How often it has failed.
        since: When it came, in seconds.
        not_before: Until when it waits after a failure.
    """

    key: Hashable | None
    payload: Any
    size: int
    body: bytes
    timestamp: int | None = None
    tries: int = 0
    since: float = 0.0
    not_before: float = 0.0


class Fate(Enum):
    """What becomes of a request that was not done."""

    RETRY = "try it again"
    REFUSED = "the service takes the others, and this one never"


class Outcome(NamedTuple):
    """How a request failed.

    Attributes:
        fate: What becomes of it.
        why: The service's words.
    """

    fate: Fate
    why: str


class NotDoneError(Exception):
    """Raised by a client that can't tell what became of a batch: all of it is tried again."""


class RequestClient(ABC):
    """Sends batches to a service. `submit` is called from several threads."""

    @abstractmethod
    def submit(self, batch: Sequence[Request]) -> Sequence[Outcome | None]:
        """Send a batch, in order, within the timeout of a request; return for each how it failed, None for success.

        Raises:
            NotDoneError: Nobody knows what became of it; it may be tried again.
            PystateError: The service can't be used like this: password, rights. The job fails.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the connections, also those of batches under way."""
