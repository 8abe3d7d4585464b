"""What can be told of a source or sink before its job starts, without its system: by `pystate check`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

from pystate.common.errors import PystateError


@dataclass(frozen=True)
class EarlyFinding:
    """Something that is wrong with a source or sink.

    Attributes:
        error: What, and what to do.
        fails: Whether the job fails of it whatever its system holds.
        in_slots: Whether it is told of the machines of slots alone, and this one may be none of them.
    """

    error: PystateError
    fails: bool = True
    in_slots: bool = False


class SupportsEarlyCheck(ABC):
    """Mixed into a source or sink of which something can be told early."""

    @abstractmethod
    def early_findings(self) -> Iterator[EarlyFinding]:
        """Yield what is wrong; nobody is asked, and nothing is loaded that takes long."""
