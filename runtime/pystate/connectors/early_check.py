"""What can be told of a sink before its job starts, without its system: by `pystate check`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

from pystate.common.errors import PystateError


@dataclass(frozen=True)
class EarlyFinding:
    """Something that is wrong with a sink.

    Attributes:
        error: What, and what to do.
        fails: Whether the job fails of it whatever its system holds.
    """

    error: PystateError
    fails: bool = True


class SupportsEarlyCheck(ABC):
    """Mixed into a sink of which something can be told early."""

    @abstractmethod
    def early_findings(self) -> Iterator[EarlyFinding]:
        """Yield what is wrong; nobody is asked, and nothing is loaded that takes long."""
