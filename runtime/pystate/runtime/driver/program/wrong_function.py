"""What is told of a function of a program that fails, or does nothing."""

from __future__ import annotations

from dataclasses import dataclass

from pystate.common.errors import JobGraphError


@dataclass(frozen=True)
class WrongFunction:
    """What is wrong with a function of a program.

    Attributes:
        error: What, and what to write instead.
        place: The line, as "FILE, line N"; None if it isn't known.
        fails: Whether the job would fail; else it does nothing, or not what it seems to.
        in_slots: Whether it is told of the machines of slots alone.
    """

    error: JobGraphError
    place: str | None
    fails: bool = True
    in_slots: bool = False
