"""How a sink writes an element: as a row of a table, or as the parameters of a statement."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pystate.common.errors import ConfigurationError
from pystate.common.row import Row, RowKind
from pystate.common.text.bounded_text import shown
from pystate.connectors.sql.sql_errors import SqlError

Operation = tuple[bool, list[Any]]
"""Whether a row is deleted; its values, of a deleted one those of its key."""


class SqlTarget(ABC):
    """How elements are written.

    Attributes:
        key_places: The positions of the key's values in a row; empty without a key.
    """

    key_places: tuple[int, ...] = ()

    @abstractmethod
    def operation(self, element: Any) -> Operation | None:
        """Return the operation of an element; None to skip it.

        Raises:
            SqlError: The element lacks a column.
        """

    @abstractmethod
    def write_sql(self, backend: str, quote: Callable[[str], str]) -> str:
        """Return the statement that writes a row, with a `?` for each value."""

    def rows_sql(self, backend: str, quote: Callable[[str], str], count: int) -> str | None:
        """Return a statement that writes this many rows with distinct keys at once; None if there is none."""
        del backend, quote, count
        return None

    @abstractmethod
    def delete_sql(self, quote: Callable[[str], str]) -> str:
        """Return the statement that deletes a row by its key."""

    @abstractmethod
    def shown(self) -> str:
        """Return a name for display."""


class TableTarget(SqlTarget):
    """Rows of a table.

    Args:
        table: The name of the table, optionally as `schema.table`.
        columns: The columns to write.
        keys: The key columns: a row with the same key is replaced. None: rows are inserted.
        mapper: Makes a record with the columns from an element; None uses the element itself.
        delete_when: Returns whether an element deletes the row of its key.

    Raises:
        ConfigurationError: A key isn't a column, or rows are deleted without a key.
    """

    def __init__(
        self,
        table: str,
        columns: Sequence[str],
        keys: Sequence[str] = (),
        mapper: Callable[[Any], Any] | None = None,
        delete_when: Callable[[Any], bool] | None = None,
    ) -> None:
        self.table = table
        self.columns = tuple(columns)
        self.keys = tuple(keys)
        missing = [key for key in self.keys if key not in self.columns]
        if missing or not self.columns:
            message = (
                f"The key {missing} is not among the columns." if missing else "A table needs the names of its columns."
            )
            raise ConfigurationError(message, where=table, hint='set_columns("id", "name", ...)')
        if delete_when is not None and not self.keys:
            message = "Rows can be deleted by their key only."
            raise ConfigurationError(message, where=table, hint='set_upsert_keys("id", ...)')
        self.key_places = tuple(self.columns.index(key) for key in self.keys)
        self._mapper = mapper
        self._delete_when = delete_when

    def operation(self, element: Any) -> Operation | None:
        """Return the operation of an element."""
        deletes = self._delete_when is not None and self._delete_when(element)
        kind = _kind_of(element)
        if self._mapper is not None:
            element = self._mapper(element)
            if element is None:
                return None
            kind = _kind_of(element) if kind is RowKind.INSERT else kind  # what the mapper makes has seldom one of its own
        if kind is RowKind.UPDATE_BEFORE and self.keys:
            return None
        if kind in (RowKind.DELETE, RowKind.UPDATE_BEFORE):
            deletes = True
        values = _values_of(element, self.columns)
        if not deletes:
            return False, values
        if not self.keys:
            message = f"{self.table} has no key by which {shown(element)} could be deleted."
            raise SqlError(message, hint='set_upsert_keys("id", ...)')
        return True, [values[place] for place in self.key_places]

    def write_sql(self, backend: str, quote: Callable[[str], str]) -> str:
        """Return the INSERT, with the clause that replaces a row of the same key.

        Raises:
            ConfigurationError: Replacing rows isn't supported for this kind of database.
        """
        return self.rows_sql(backend, quote, 1)

    def rows_sql(self, backend: str, quote: Callable[[str], str], count: int) -> str:
        """Return the INSERT of this many rows; see `write_sql`."""
        names, marks = ", ".join(map(quote, self.columns)), ", ".join("?" * len(self.columns))
        rows = ", ".join([f"({marks})"] * count)
        insert = f"INSERT INTO {self._name(quote)} ({names}) VALUES {rows}"  # noqa: S608 - names are quoted
        if not self.keys:
            return insert
        others = [quote(column) for column in self.columns if column not in self.keys]
        if backend in ("postgresql", "sqlite"):
            keys = ", ".join(map(quote, self.keys))
            changes = ", ".join(f"{name} = excluded.{name}" for name in others)
            return f"{insert} ON CONFLICT ({keys}) DO " + (f"UPDATE SET {changes}" if others else "NOTHING")
        if backend in ("mysql", "mariadb"):
            key = quote(self.keys[0])
            changes = ", ".join(f"{name} = VALUES({name})" for name in others) or f"{key} = {key}"
            return f"{insert} ON DUPLICATE KEY UPDATE {changes}"
        message = f"Upserts to {backend} are not known here."
        raise ConfigurationError(message, where=self.table, hint="set_statement(...) with its own MERGE")

    def delete_sql(self, quote: Callable[[str], str]) -> str:
        """Return the DELETE of a key."""
        same = " AND ".join(f"{quote(key)} = ?" for key in self.keys)
        return f"DELETE FROM {self._name(quote)} WHERE {same}"  # noqa: S608 - names are quoted

    def shown(self) -> str:
        """Return the table's name."""
        return f"table {self.table}"

    def _name(self, quote: Callable[[str], str]) -> str:
        return ".".join(map(quote, self.table.split(".")))


class StatementTarget(SqlTarget):
    """The parameters of a statement: an INSERT, UPDATE, DELETE, or whatever the database takes.

    Args:
        sql: The statement, with a `?` for each value.
        mapper: Makes the values from an element, in order; None uses the element as a row.
        columns: The names of the values, if elements are dicts.
    """

    def __init__(self, sql: str, mapper: Callable[[Any], Any] | None = None, columns: Sequence[str] = ()) -> None:
        self.sql = sql
        self._mapper = mapper
        self._columns = tuple(columns)

    def operation(self, element: Any) -> Operation | None:
        """Return the values of an element."""
        values = element if self._mapper is None else self._mapper(element)
        return None if values is None else (False, _values_of(values, self._columns))

    def write_sql(self, backend: str, quote: Callable[[str], str]) -> str:
        """Return the statement."""
        del backend, quote
        return self.sql

    def delete_sql(self, quote: Callable[[str], str]) -> str:
        """Return nothing: a statement target doesn't delete by key."""
        raise AssertionError

    def shown(self) -> str:
        """Return the statement's beginning."""
        return shown(" ".join(self.sql.split()))


def _kind_of(element: Any) -> RowKind:
    return element.get_row_kind() if isinstance(element, Row) else RowKind.INSERT


def _values_of(element: Any, columns: tuple[str, ...]) -> list[Any]:
    try:
        if isinstance(element, Row):
            values = element.values_as(columns) if columns and element.field_names() else element.values_list()
        elif isinstance(element, Mapping):
            values = [element[column] for column in columns]
        elif isinstance(element, (list, tuple)):
            values = list(element)
        else:
            values = [element]
    except (KeyError, ValueError) as error:
        message = f"An element has no column {error}: {shown(element)}"
        raise SqlError(message, hint="set_columns(...) names those that elements have") from error
    if columns and len(values) != len(columns):
        message = f"An element has {len(values)} values for {len(columns)} columns: {shown(element)}"
        raise SqlError(message, hint="set_columns(...) names as many as elements have")
    return values
