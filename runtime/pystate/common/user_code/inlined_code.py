"""Code generation for functions that run once per record.

A record passes through a chain of functions that call each other. A call is as expensive as several steps, so such a
function is defined by lines of code, which are inlined at the place of the call. All lines come from our sources: external
objects and functions of a job are only referenced by generated names.
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
    """The generated code of one function, and the names that it uses."""

    def __init__(self) -> None:
        self._bound: dict[str, Any] = {}
        self._count = 0

    def name(self, about: str) -> str:
        """Return a unique name for a variable."""
        self._count += 1
        return f"{about}_{self._count}"

    def bind(self, value: Any, about: str) -> str:
        """Return a name for an object."""
        name = self.name(about)
        self._bound[name] = value
        return name

    def apply(self, function: Callable[[Any], None], element: str) -> list[str]:
        """Return the lines that apply a function to an element: its inlined lines, or a call if it has none."""
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
    """Return a function of an element defined by lines, which `Code.apply` inlines instead of a call."""
    code = Code()
    lines = write(code, "element")
    made: Any = code.function("element", lines)
    if len(lines) <= MAX_LINES and max(map(_depth, lines)) <= MAX_DEPTH:
        made.write_inlined = write
    return made  # type: ignore[no-any-return]


def _depth(line: str) -> int:
    return (len(line) - len(line.lstrip())) // len(_INDENT)
