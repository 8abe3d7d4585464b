"""The answer of a query, as rows, and as one JSON object."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pystate.common.errors import PystateError
from pystate.common.text.figures import format_millis
from pystate.common.text.json_text import json_text
from pystate.core.queryable.query_errors import QueriesOverloadedError, UnknownKeyOrNamespaceError, UnknownLocationError
from pystate.runtime.rest.query_messages import KvStateAnswer, KvStateVersion
from pystate_cli.console.formats import known_epoch
from pystate_cli.views.snapshots.state_rows import write_table

if TYPE_CHECKING:
    from rich.console import RenderableType

_PASSING = (UnknownKeyOrNamespaceError, UnknownLocationError, QueriesOverloadedError)
"""What may be otherwise when it is looked at again."""


@dataclass(frozen=True)
class QueryAnswer:
    """The combined pages of an answer; the rows are like those of `pystate state read`.

    Attributes:
        columns: The columns of the rows.
        cells: The cells of each row.
        content: The JSON besides key and version.
        key: The key, as typed.
        version: The version of the state.
        is_whole: Whether it is complete.
    """

    columns: Sequence[str]
    cells: Sequence[Sequence[Any]]
    content: dict[str, Any]
    key: str
    version: KvStateVersion
    is_whole: bool

    @staticmethod
    def of(key: str, namespace: str | None, pages: Sequence[KvStateAnswer]) -> QueryAnswer:
        """Combine pages."""
        last = pages[-1]
        assert last.version is not None  # noqa: S101 - answers with a value have one
        where = {"key": key} if namespace is None else {"key": key, "namespace": namespace}
        content: dict[str, Any]
        rows: list[list[Any]]
        if last.elements is not None:
            elements = [element for page in pages for element in page.elements or ()]
            columns, rows = ["index", "value"], [[index, element] for index, element in enumerate(elements)]
            content = {"elements": elements}
        elif last.entries is not None:
            entries = [entry for page in pages for entry in page.entries or ()]
            columns, rows = ["map_key", "value"], [[entry.key, entry.value] for entry in entries]
            content = {"entries": [{"key": entry.key, "value": entry.value} for entry in entries]}
        else:
            columns, rows, content = ["value"], [[last.value]], {"value": last.value}
        cells = [[*where.values(), *row] for row in rows]
        return QueryAnswer([*where, *columns], cells, {**where, **content}, key, last.version, last.cursor is None)

    @property
    def rows(self) -> Iterator[Sequence[Any]]:
        """The rows, for writing tables."""
        return iter(self.cells)

    def lines(self) -> list[str]:
        """Return the rows as text, below their heading."""
        written: list[str] = []
        write_table(self, written.append)
        return "".join(written).splitlines()

    def json(self) -> bytes:
        """Return one object on a line; names inside keys and values are unchanged."""
        version = self.version
        shown = {"epoch": version.epoch, "checkpointId": version.checkpoint_id, "timestamp": version.timestamp}
        line = json_text({**self.content, "version": {**shown, "age": version.age}})
        return f"{line}\n".encode("utf-8", "backslashreplace")

    def story(self) -> str:
        """Return a sentence about the version."""
        version = self.version
        name = f"checkpoint {version.checkpoint_id}"
        if version.checkpoint_id is None:
            name = "the start, before any epoch" if known_epoch(version.epoch) is None else f"epoch {version.epoch}"
        more = "" if self.is_whole else "; there is more"
        return f"As of {name}, {format_millis(version.age)} ago{more}."


class QueryLook:
    """A query at one point in time, for `--watch`.

    Args:
        ask: Runs the query.

    Raises:
        PystateError: It fails permanently.
    """

    is_last = False

    def __init__(self, ask: Callable[[], QueryAnswer]) -> None:
        self._missing: PystateError | None = None
        self._found: QueryAnswer | None = None
        try:
            self._found = ask()
        except _PASSING as error:
            self._missing = error

    def block(self) -> list[str]:
        """Return the lines for a pipe, without the version: a new block means that the value has changed."""
        if self._found is None:
            assert self._missing is not None  # noqa: S101 - one of them is there
            return [self._missing.message]
        return self._found.lines()

    def view(self, width: int, height: int) -> RenderableType:
        """Return the output for a terminal of that size."""
        from rich.console import Group
        from rich.text import Text

        lines = self.block()
        story = [] if self._found is None else [Text(self._found.story(), style="dim")]
        room = max(1, height - 3)
        more = [Text(f"{len(lines) - room} more; --prefix and --limit choose.", style="dim")] if len(lines) > room else []
        texts = (Text(line, no_wrap=True, overflow="ellipsis") for line in lines[:room])
        return Group(*story, *texts, *more)
