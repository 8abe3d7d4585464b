"""Marks public names that are to go, or that have a newer name: a program that uses one is told, at the line that does."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

Named = TypeVar("Named", bound=Callable[..., Any])

_MARK = "__pystate_deprecated__"


class PystateDeprecationWarning(DeprecationWarning):
    """A name of pystate is deprecated. Python shows it for the lines of a program itself, and pytest for those of tests."""


@dataclass(frozen=True)
class Deprecation:
    """What is said of a deprecated name.

    Attributes:
        name: The name, as a program writes it.
        instead: What to write in its place.
        since: The release that deprecated it; None for Flink's old names, which were deprecated before the first one.
        removed_in: The release that no longer has it; None if it stays, as names do that Flink keeps.
    """

    name: str
    instead: str
    since: str | None
    removed_in: str | None

    def __str__(self) -> str:
        """Return the sentence of the warning."""
        since = "" if self.since is None else f" since pystate {self.since}"
        goes = "" if self.removed_in is None else f" pystate {self.removed_in} no longer has it."
        return f"{self.name} is deprecated{since}; use {self.instead}.{goes}"


def deprecated(*, instead: str, since: str | None = None, removed_in: str | None = None) -> Callable[[Named], Named]:
    """Return a decorator for a function, method or class that is deprecated.

    Args:
        instead: What to use, in the reader's words.
        since: The release that deprecates it; None for what was Flink's old name from the first one on.
        removed_in: The release that no longer has it; None if it stays.
    """

    def mark(what: Named) -> Named:
        said = Deprecation(what.__qualname__, instead, since, removed_in)
        if isinstance(what, type):
            _warn_at_making(what, said)
            setattr(what, _MARK, said)
            return what

        @functools.wraps(what)
        def call(*arguments: Any, **named: Any) -> Any:
            warnings.warn(str(said), PystateDeprecationWarning, stacklevel=2)
            return what(*arguments, **named)

        setattr(call, _MARK, said)
        marked: Any = call  # it has the signature of what it wraps
        return cast("Named", marked)

    return mark


def deprecation_of(what: object) -> Deprecation | None:
    """Return what is said of a function, method or class itself, whatever it inherits; None if it isn't deprecated."""
    found = vars(what).get(_MARK) if hasattr(what, "__dict__") else None
    return found if isinstance(found, Deprecation) else None


def _warn_at_making(what: type, said: Deprecation) -> None:
    """Warn when an instance of the class is made, but not for its subclasses, which have names of their own."""
    made = getattr(what, "__init__")  # noqa: B009 - mypy refuses the plain access

    @functools.wraps(made)
    def make(self: Any, *arguments: Any, **named: Any) -> None:
        if type(self) is what:
            warnings.warn(str(said), PystateDeprecationWarning, stacklevel=2)
        made(self, *arguments, **named)

    setattr(what, "__init__", make)  # noqa: B010 - mypy refuses the assignment
