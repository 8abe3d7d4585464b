"""Functions that run once per record, made as one piece of code each.

A record goes through a chain of functions: one calls the next. Each call takes as long as several of the steps in it, so
who makes such a function says what it does to an element as lines of code, and what calls it has these lines in place of the
call. The lines all stand in our sources: what comes from elsewhere, functions and objects of a job, has names in them that
are made here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Write = Callable[["Code", str], list[str]]
"""Returns the lines that do to an element, by its name in them, what a function would do."""

MAX_LINES = 300
"""What is longer is called: a chain that parts again and again would have all its ends in the code of its beginning."""

MAX_DEPTH = 10
"""What has more blocks in each other is called: Python's compiler refuses twenty loops."""

_INDENT = "    "
_FILE = str(Path(__file__).with_name("inlined code"))  # below our own sources, as user_code asks


class Code:
    """The names that the lines of one function use."""

    def __init__(self) -> None:
        self._bound: dict[str, Any] = {}
        self._count = 0

    def name(self, about: str) -> str:
        """Return a name that nothing else has, for a variable."""
        self._count += 1
        return f"{about}_{self._count}"

    def bind(self, value: Any, about: str) -> str:
        """Return a name for an object."""
        name = self.name(about)
        self._bound[name] = value
        return name

    def apply(self, function: Callable[[Any], None], element: str) -> list[str]:
        """Return the lines that hand an element to a function: its own lines, or a call where it has none."""
        write: Write | None = getattr(function, "write_inlined", None)
        return [f"{self.bind(function, 'call')}({element})"] if write is None else write(self, element)

    def function(self, parameter: str, lines: Sequence[str]) -> Callable[[Any], None]:
        """Return a function of one parameter that runs these lines."""
        names = ", ".join(self._bound)
        body = [f"def make({names}):", *indented([f"def run({parameter}):", *indented(lines), "return run"])]
        scope: dict[str, Any] = {}
        exec(compile("\n".join(body), _FILE, "exec"), scope)  # noqa: S102 - lines of our sources, see above
        made: Callable[[Any], None] = scope["make"](**self._bound)
        return made


def indented(lines: Sequence[str]) -> list[str]:
    """Return the lines of a block."""
    return [_INDENT + line for line in lines]


def inlined(write: Write) -> Callable[[Any], None]:
    """Return a function of an element, of its lines; `Code.apply` takes these in place of a call."""
    code = Code()
    lines = write(code, "element")
    made: Any = code.function("element", lines)
    if len(lines) <= MAX_LINES and max(map(_depth, lines)) <= MAX_DEPTH:
        made.write_inlined = write
    return made  # type: ignore[no-any-return]


def _depth(line: str) -> int:
    return (len(line) - len(line.lstrip())) // len(_INDENT)
