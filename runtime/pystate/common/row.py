"""Row: PyFlink's record of positional or named fields."""

from __future__ import annotations

import copyreg
import functools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from itertools import repeat
from operator import attrgetter, is_
from typing import Any, cast


class RowKind(Enum):
    """The changelog kind of a row; a plain record is an INSERT."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    def __str__(self) -> str:
        """Return Flink's short form: `+I`, `-U`, `+U`, `-D`."""
        return _SHORT_KINDS[self.value]


_SHORT_KINDS = ("+I", "-U", "+U", "-D")


class DefaultNames(tuple[str, ...]):
    """The default names `f0`, `f1`, ... of a row whose type has no names.

    Functions see them. In durable data and in keys, such a row remains a row without names.
    """

    __slots__ = ()


@functools.lru_cache
def default_names(count: int) -> DefaultNames:
    """Return the default names of a number of fields."""
    return DefaultNames(f"f{index}" for index in range(count))


class Row:
    """A record with positional fields, and optional field names.

    `Row("hello", 3)` is positional, `Row(word="hello", count=3)` is named; the two can't be mixed. A positional row of
    strings also works as a template: `Person = Row("name", "age"); Person("Ann", 41)`. Two rows are equal when their kind,
    names and values are, in whichever order the names stand. `name in row` asks for a field of that name, in a row without
    names for a value.
    """

    __slots__ = ("_fields", "_kind", "_values")

    _fields: tuple[str, ...] | None
    _kind: RowKind  # set for other kinds than INSERT only: rows are made once per record
    _values: list[Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if kwargs:
            if args:
                message = "A Row is positional or named, not both."
                raise ValueError(message)
            _set_fields(self, tuple(kwargs))
            _set_values(self, list(kwargs.values()))
        else:
            _set_fields(self, None)
            _set_values(self, [*args])

    @classmethod
    def of_fields(cls, fields: tuple[str, ...] | None, values: list[Any]) -> Row:
        """Create a row from a (shared) tuple of names and a list of values that the row then owns. Nothing is checked."""
        row = _new(cls)
        _set_fields(row, fields)
        _set_values(row, values)
        return row

    @staticmethod
    def of_kind(row_kind: RowKind, *args: Any, **kwargs: Any) -> Row:
        """Create a row of a kind."""
        row = Row(*args, **kwargs)
        row.set_row_kind(row_kind)
        return row

    def __call__(self, *args: Any) -> Row:
        """Create a row whose names are this row's values."""
        if len(args) > len(self._values):
            message = f"Can't make a row of {len(args)} values from {len(self._values)} names."
            raise ValueError(message)
        row = Row.of_fields(tuple(self._values[: len(args)]), list(args))
        row.set_row_kind(self._kind)
        return row

    def as_dict(self, recursive: bool = False) -> dict[str, Any]:
        """Return the row as name -> value.

        Args:
            recursive: Turn rows inside lists, dicts and fields into dicts too.

        Raises:
            TypeError: The row has no names.
        """
        if self._fields is None:
            message = "Only a row with field names can become a dict."
            raise TypeError(message)
        if not recursive:
            return dict(zip(self._fields, self._values, strict=True))
        return {name: _plain(value) for name, value in zip(self._fields, self._values, strict=True)}

    def get_field_names(self) -> list[str] | None:
        """Return the names; None for a positional row."""
        return None if self._fields is None else list(self._fields)

    def get_fields_by_names(self, names: Sequence[str]) -> list[Any]:
        """Return the values of these fields, in this order; all values for a row without names.

        Raises:
            ValueError: There is no such field.
        """
        if self._fields is None or tuple(names) == self._fields:
            return self._values
        return [self._values[self._index(name)] for name in names]

    def set_field_names(self, field_names: Sequence[str]) -> None:
        """Name the fields of this row."""
        if len(field_names) != len(self._values):
            message = f"{len(field_names)} names don't fit {len(self._values)} values."
            raise ValueError(message)
        _set_fields(self, tuple(field_names))

    def field_names(self) -> tuple[str, ...] | None:
        """Return the names as a shared tuple; None for a row without names, or with default names."""
        fields = self._fields
        return None if type(fields) is DefaultNames else fields

    def values_list(self) -> list[Any]:
        """Return the row's own list of values (not a copy)."""
        return self._values

    def get_row_kind(self) -> RowKind:
        """Return the changelog kind of the row."""
        return self._kind

    def set_row_kind(self, row_kind: RowKind) -> None:
        """Set the changelog kind of the row."""
        _set_kind(self, row_kind)
        if row_kind is not RowKind.INSERT:
            while _until_kinds:
                _until_kinds.pop()()

    def values_as(self, names: tuple[str, ...]) -> list[Any]:
        """Return the values in the order of a type's names; unchanged if the row or the type has no names.

        Raises:
            ValueError: The row has no field of one of the names.
        """
        fields = self._fields
        if fields is None or fields == names or type(fields) is DefaultNames or type(names) is DefaultNames:
            return self._values
        return [self._values[self._index(name)] for name in names]

    def _index(self, name: str) -> int:
        try:
            return self._fields.index(name)  # type: ignore[union-attr]
        except (AttributeError, ValueError):
            raise self._no_field(name) from None

    def _no_field(self, name: str) -> ValueError:
        known = "no names" if self._fields is None else ", ".join(self._fields)
        message = f"This row has no field {name!r} (it has {known})."
        return ValueError(message)

    def __getitem__(self, item: Any) -> Any:
        """Return a value by position, slice or name."""
        if isinstance(item, (int, slice)):
            return self._values[item]
        return self._values[self._index(item)]

    def __setitem__(self, item: Any, value: Any) -> None:
        """Set a value by position, slice or name."""
        if isinstance(item, slice):
            values = list(self._values)
            values[item] = value
            if len(values) != len(self._values):
                message = f"A row of {len(self._values)} fields can't become one of {len(values)}."
                raise ValueError(message)
            _set_values(self, values)
            return
        self._values[item if isinstance(item, int) else self._index(item)] = value

    def __getattr__(self, name: str) -> Any:
        """Return a value by name."""
        if name == "_kind":
            return RowKind.INSERT
        if name[:2] == "__" or name == "_fields" or name == "_values":
            raise AttributeError(name)
        try:
            return self._values[self._fields.index(name)]  # type: ignore[union-attr]
        except (AttributeError, ValueError):
            raise AttributeError(self._no_field(name).args[0]) from None

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a value by name."""
        try:
            self._values[self._index(name)] = value
        except ValueError as error:
            raise AttributeError(error.args[0]) from None

    def __contains__(self, item: object) -> bool:
        """Return whether a field of that name exists; for a row without names, whether a field has that value."""
        return item in (self._values if self._fields is None else self._fields)

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the values."""
        return iter(self._values)

    def __len__(self) -> int:
        """Return the number of fields."""
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        """Compare kind, names and values; a row with default names also equals one without names."""
        if not isinstance(other, Row):
            return NotImplemented
        mine, its = self._fields, other._fields
        alike = mine == its or (mine is None and type(its) is DefaultNames) or (its is None and type(mine) is DefaultNames)
        if alike:
            return self._values == other._values and self._kind is other._kind
        if mine is None or its is None or self._kind is not other._kind or sorted(mine) != sorted(its):
            return False
        return self._values == [other[name] for name in mine]

    def __hash__(self) -> int:
        """Hash the values, which must be hashable."""
        return hash(tuple(self._values))

    def __repr__(self) -> str:
        """Return PyFlink's notation, with angle brackets for a row without names."""
        if self._fields is None:
            return f"<Row({', '.join(map(repr, self._values))})>"
        return f"Row({', '.join(f'{name}={value!r}' for name, value in zip(self._fields, self._values, strict=True))})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Support pickle and copy."""
        fields = True if type(self._fields) is DefaultNames else self._fields
        return _rebuild, (fields, list(self._values), self._kind)


# Row.__setattr__ sets fields, so the slots are set through their descriptors; bound once, since a row is made per record.
_new = object.__new__
_set_fields = Row.__dict__["_fields"].__set__
_set_values = Row.__dict__["_values"].__set__
_set_kind = Row.__dict__["_kind"].__set__
_values_of = attrgetter("_values")


def row_like(row: Row, values: list[Any]) -> Row:
    """Return a row with the names and the kind of another row, and with the given values, which it then owns."""
    made = type(row).of_fields(row._fields, values)
    if row.get_row_kind() is not RowKind.INSERT:
        made.set_row_kind(row.get_row_kind())
    return made


_set_class = object.__dict__["__class__"].__set__


class _SchemaClass(type):
    """The metaclass of classes that equal `Row`, so that `type(row) == Row` and look-ups by type work for every row."""

    def __eq__(cls, other: object) -> bool:
        return other is Row or type(other) is _SchemaClass

    def __hash__(cls) -> int:
        return hash(Row)


class SchemaRow(Row, metaclass=_SchemaClass):
    """The base of classes with a property per field, which are the classes of rows decoded from columns.

    All else is a `Row`'s: what pickle, copy and calls of the class make is a plain `Row`.
    """

    __slots__ = ()

    def __new__(cls, *args: Any, **kwargs: Any) -> Row:  # type: ignore[misc]
        """Create a plain row: this class only represents its names."""
        return Row(*args, **kwargs)

    @classmethod
    def of_fields(cls, fields: tuple[str, ...] | None, values: list[Any]) -> Row:
        """Create a plain row, as `Row.of_fields` does."""
        return Row.of_fields(fields, values)

    def set_field_names(self, field_names: Sequence[str]) -> None:
        """Name the fields of this row, which then becomes a plain row."""
        fields = self._fields
        _set_class(self, Row)
        _set_fields(self, fields)
        self.set_field_names(field_names)


def is_row(value: Any) -> bool:
    """Return whether a value is a row, but not of a user's subclass of `Row`."""
    kind = type(value)
    return kind is Row or type(kind) is _SchemaClass


@functools.lru_cache(maxsize=256, typed=True)  # typed: `DefaultNames` equal the same names given
def row_class(names: tuple[str, ...]) -> type[SchemaRow]:
    """Return the class of rows with these names, which has properties instead of `Row.__getattr__`.

    A name that `Row` itself uses stays what it is in `Row`; of a name given twice the first field counts.
    """
    namespace: dict[str, Any] = {"__slots__": (), "__module__": Row.__module__, "__qualname__": "Row", "_fields": names}
    for index, name in enumerate(names):
        if name not in namespace and not name.startswith("__") and not hasattr(Row, name):
            namespace[name] = _field(index)
    made: Any = _SchemaClass("Row", (SchemaRow,), namespace)
    return cast("type[SchemaRow]", made)


copyreg.pickle(_SchemaClass, lambda made: (row_class, (made._fields,)))  # type: ignore[attr-defined]  # noqa: SLF001


def rows_of(names: tuple[str, ...], columns: Iterable[Iterable[Any]]) -> list[Any]:
    """Return the rows of columns of the same length, without running Python code per row."""
    values = list(map(list, zip(*columns, strict=True)))
    rows = list(map(_new, repeat(row_class(names), len(values))))
    deque(map(_set_values, rows, values), maxlen=0)
    return rows


def inserted_values(names: tuple[str, ...], rows: Sequence[Any]) -> list[list[Any]] | None:
    """Return the rows' lists of values, if all rows were created by `rows_of` with these names and are INSERTs.

    Returns:
        None if they aren't. No step runs Python code for a single row.
    """
    if _kinds_used or not all(map(is_, map(type, rows), repeat(row_class(names)))):
        return None
    return list(map(_values_of, rows))


def _field(index: int) -> property:
    return property(lambda row: row._values[index])  # noqa: SLF001


_until_kinds: list[Callable[[], None]] = []


def when_kinds_are_used(call: Callable[[], None]) -> None:
    """Register a function to be called when this process creates its first row of another kind than INSERT.

    Until then, readers of all rows of a job need not check the kinds. A process that has already made one calls it at once.
    """
    if _kinds_used:
        call()
        return
    _until_kinds.append(call)


def _rebuild(fields: tuple[str, ...] | bool | None, values: list[Any], kind: RowKind) -> Row:
    row = Row.of_fields(default_names(len(values)) if isinstance(fields, bool) else fields, values)
    row.set_row_kind(kind)
    return row


_kinds_used = False
"""Whether this process has made rows of other kinds than INSERT."""


_kinds_expected = False


def expect_kinds() -> None:
    """Note that the program has something that makes rows of other kinds than INSERT, if only in other processes."""
    global _kinds_expected  # noqa: PLW0603
    _kinds_expected = True


def kinds_are_expected() -> bool:
    """Return whether this process has made rows of other kinds than INSERT, or something that makes them."""
    return _kinds_used or _kinds_expected


def _look_at_kinds() -> None:
    global _kinds_used  # noqa: PLW0603
    _kinds_used = True


when_kinds_are_used(_look_at_kinds)


def _plain(value: Any) -> Any:
    if isinstance(value, Row):
        return value.as_dict(recursive=True)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value
