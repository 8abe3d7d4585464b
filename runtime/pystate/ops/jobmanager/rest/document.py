"""Updates docs/rest.md with everything generated from the routes.

Run as `python -m pystate.ops.jobmanager.rest.document docs/rest.md`.

For the section of a route that is its summary, its query, its body and the name of its answer; and at the end of the page a
table per message. The paragraphs and examples in between are written by hand, and are kept.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pystate.common.errors import UsageError
from pystate.common.files.home import write_file_atomically
from pystate.common.text.plain_data import Entry, entries
from pystate.ops.jobmanager.rest.app import ROUTES
from pystate.ops.jobmanager.rest.parameters import Parameter
from pystate.ops.jobmanager.rest.route import RestRoute
from pystate.runtime.rest.failure_messages import ErrorResponseBody
from pystate.runtime.rest.message import RestMessage

_WORDS = {str: "text", int: "number", float: "number", bool: "true or false", type(None): "null", Any: "anything"}
_SECTION = re.compile(r"^### ([A-Z]+ \S+)\n\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
_GENERATED = ("Query:", "Body:", "Answer:")
_FIELDS = "## Fields\n"
_ABOUT_FIELDS = """\
What answers consist of. *Maybe* marks a field that is not always there. A field without a text means what its name says,
as in Flink.
"""


def with_routes(page: str, routes: Iterable[RestRoute] = ROUTES) -> str:
    """Return the page, updated from the routes.

    Raises:
        UsageError: The page has no section for a route.
    """
    by_heading = {heading(route): route for route in routes}
    written = page.partition(_FIELDS)[0].rstrip() + "\n"
    found = {section[1] for section in _SECTION.finditer(written)}
    if missing := by_heading.keys() - found:
        message = f"The page has no section for {', '.join(sorted(missing))}."
        raise UsageError(message, hint="write its heading (###), an empty line, and an example of a request and its answer")

    def section(given: re.Match[str]) -> str:
        route = by_heading.get(given[1])
        return given[0] if route is None else f"### {given[1]}\n\n{_section(route, given[2])}"

    tables = "\n".join(_table(kind) for kind in sorted(messages(by_heading.values()), key=lambda kind: kind.__name__))
    return f"{_SECTION.sub(section, written)}\n{_FIELDS}\n{_ABOUT_FIELDS}\n{tables}"


def heading(route: RestRoute) -> str:
    """Return the heading of a route's section, with Flink's names of placeholders."""
    return f"{route.method} " + re.sub(r"{(\w+)}", lambda found: ":" + found[1].replace("_", ""), route.path)


def _section(route: RestRoute, text: str) -> str:
    before, fence, example = text.partition("```")
    paragraphs = [one for one in before.rstrip().split("\n\n")[1:] if not one.startswith(_GENERATED)]
    summary = f"{route.summary} *Owner.*" if route.owner_only else route.summary
    told = [
        f"{label}{_parameters(given)}" for label, given in zip(_GENERATED, (route.query, route.body), strict=False) if given
    ]
    answer = [] if route.answer in (None, Any) else [f"Answer: {_kind(route.answer)}."]
    return "\n\n".join([summary, *paragraphs, *told, *answer, fence + example])


def _parameters(given: Iterable[Parameter[Any]]) -> str:
    return "".join(f"\n- `{one.name}`: {one.description}" for one in given)


def messages(routes: Iterable[RestRoute]) -> set[type[RestMessage]]:
    """Return the classes of all answers, and of their nested messages."""
    found: set[type[RestMessage]] = set()
    waiting = [ErrorResponseBody, *(route.answer for route in routes)]
    while waiting:
        kind = waiting.pop()
        waiting += get_args(kind)
        if isinstance(kind, type) and issubclass(kind, RestMessage) and kind not in found:
            found.add(kind)
            waiting += [one.kind for one in entries(kind).values()]
    return {kind for kind in found if entries(kind)}


def _table(kind: type[RestMessage]) -> str:
    meanings = attributes(kind)
    about = inspect.cleandoc(kind.__doc__ or "").partition("\nAttributes:")[0].strip()
    rows = [f"| `{one.key}` | {_entry(one)} | {meanings.get(name, '')} |" for name, one in entries(kind).items()]
    return "\n".join(
        [f"### {kind.__name__}", "", about, "", "| field | what it is | what it says |", "|---|---|---|", *rows, ""]
    )


def attributes(kind: type[RestMessage]) -> dict[str, str]:
    """Return the docstrings of the fields of a message, including those of its bases."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        lines = inspect.cleandoc(base.__dict__.get("__doc__") or "").partition("\nAttributes:\n")[2].splitlines()
        found |= dict(_items(line.removeprefix("    ") for line in lines))
    return found


def _items(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    for item in re.split(r"\n(?=\S)", "\n".join(lines)):
        name, colon, meaning = item.partition(": ")
        if colon:
            yield name, " ".join(meaning.split())


def _entry(one: Entry) -> str:
    if not one.unless_none:
        return _kind(one.kind)
    return " or ".join(_kind(kind) for kind in get_args(one.kind) if kind is not type(None)) + ", *maybe*"


def _kind(kind: Any) -> str:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return "id"
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(_kind, arguments)))
    if origin is Literal:
        return " or ".join(f"`{word}`" for word in arguments)
    if origin in (list, tuple):
        return f"list of {_kind(arguments[0])}"
    if origin is dict:
        return f"{_kind(arguments[1])} per {'name' if arguments[0] is str else _kind(arguments[0])}"
    if kind in _WORDS:
        return _WORDS[kind]
    if issubclass(kind, Enum):
        return f"{kind.__name__} ({', '.join(f'`{one.value}`' for one in kind)})"
    return f"[{kind.__name__}](#{kind.__name__.lower()})" if entries(kind) else "`{}`"


def main(arguments: list[str]) -> int:
    """Write the page."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m pystate.ops.jobmanager.rest.document FILE\n")
        return 2
    path = Path(arguments[0])
    write_file_atomically(path, with_routes(path.read_text(encoding="utf-8")).encode())
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
