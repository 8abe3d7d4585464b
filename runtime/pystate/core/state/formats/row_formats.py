"""The formats of tuples and rows."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pystate.common.errors import RestoreError, StateError
from pystate.common.overrides import override
from pystate.common.row import Row, RowKind, inserted_values, is_row, rows_of
from pystate.common.type_info import TypeInformation
from pystate.common.type_rules import as_row, as_tuple
from pystate.core.state.formats.composite_format import Fields
from pystate.core.state.formats.field_checks import columns_are_right
from pystate.core.state.formats.key_bytes import (
    TAG_LONG,
    TAG_ROW,
    TAG_TUPLE,
    long_elements,
    row_head,
    split_row_head,
    wrong_key,
)
from pystate.core.state.formats.type_format import Format, Right
from pystate.core.state.not_in_columns import require

if TYPE_CHECKING:
    import pyarrow as pa

    from pystate.core.state.formats.key_cells import KeyCells
    from pystate.core.state.formats.packed_columns import PackedCells, ValueColumn


class TupleFormat(Fields):
    """Tuples."""

    tag = TAG_TUPLE

    def __init__(self, type_info: TypeInformation, parts: Sequence[Format]) -> None:
        super().__init__(type_info, parts)
        self.immutable = all(part.immutable for part in parts)
        self.field_rights = self.rights if self.immutable else None
        self._longs = long_elements(len(parts)) if all(part.tag == TAG_LONG for part in parts) else None

    @override
    def check(self, value: Any) -> Any:
        if type(value) is not tuple or len(value) != len(self.parts):
            value = self.conformed(as_tuple, value)
        if not self.immutable or self.all_right(value):
            return value
        return tuple(None if item is None else part.check(item) for part, item in zip(self.parts, value, strict=True))

    @override
    def to_plain(self, value: Any) -> Any:
        if type(value) is not tuple or len(value) != len(self.parts):
            value = self.conformed(as_tuple, value)
        if self.all_right(value):
            return value  # msgpack writes tuples as it writes lists
        return [None if item is None else part.to_plain(item) for part, item in zip(self.parts, value, strict=True)]

    @override
    def from_plain(self, plain: Any) -> Any:
        if type(plain) is list and len(plain) == len(self.parts) and self.all_right(plain):
            return tuple(plain)
        return tuple(None if item is None else part.from_plain(item) for part, item in zip(self.parts, plain, strict=True))

    @override
    def encode_key(self, value: Any) -> bytes:
        if type(value) is not tuple:
            value = self.conformed_key(as_tuple, value)
        if self._longs is not None and len(value) == len(self.parts) and self.all_right(value):
            return self._longs(value)  # windows, among others, at a fifth of the time
        return self.key_elements(value, self.parts)

    @override
    def decode_key(self, data: bytes) -> tuple[Any, ...]:
        return tuple(self.split_key(data))

    @property
    @override
    def arrow_type(self) -> pa.DataType:
        return _struct_type(self._type_info.get_field_names(), self.parts)

    @override
    def read_values(self, cells: PackedCells) -> pa.Array:
        require(bool((cells.counts() == len(self.parts)).all()))
        return _struct_of(cells, self.parts, self.arrow_type)

    @override
    def write_values(self, column: ValueColumn) -> pa.Array:
        return column.structs(self._type_info.get_field_names(), [part.write_values for part in self.parts], b"")

    @override
    def read_keys(self, cells: KeyCells) -> pa.Array:
        return cells.struct(cells.elements([(part.tag, part.read_keys) for part in self.parts]), self.arrow_type)


class RowFormat(Fields):
    """Rows: the kind's number, then the values in the type's order. Missing names are the type's."""

    tag = TAG_ROW

    def __init__(self, type_info: TypeInformation, parts: Sequence[Format]) -> None:
        super().__init__(type_info, parts)
        self._row_names = type_info.row_names
        self._names = type_info.names

    def check_defaults(self) -> None:
        """Check the defaults of the type's fields; raises StateError."""
        for name, part in zip(self._names or (), self.parts, strict=False):
            self._check_default(part, name, self._type_info.defaults.get(name))

    def _check_default(self, part: Format, name: str, default: Any) -> None:
        try:
            if default is not None:
                part.to_plain(default)
        except StateError as error:
            message = f"The default of field {name!r} of {self.name} is wrong: {error.message}"
            raise StateError(message, hint=error.hint) from error

    @override
    def check(self, value: Any) -> Any:
        if not is_row(value):
            value = self.conformed(as_row, value)
        if len(value) != len(self.parts):
            raise self.wrong(value, f"give it {len(self.parts)} fields; it has {len(value)}")
        names = value.field_names()
        if names is not None and names != self._row_names and set(names) != set(self._row_names):
            if not self._names:
                raise self.wrong(value, "declare the row's field names with Types.ROW_NAMED")
            missing = next(name for name in self._row_names if name not in names)
            raise self.wrong(value, f"give it the field {missing!r}; it has {', '.join(map(repr, names))}")
        return value

    @override
    def to_plain(self, value: Any) -> Any:
        value = self.check(value)
        names, values = value.field_names(), value.values_list()
        if names is not None and names != self._row_names:
            values = [value[name] for name in self._row_names]
        kind = value.get_row_kind()
        plain: list[Any] = [0 if kind is RowKind.INSERT else kind.value]
        if self.all_right(values):
            plain += values
            return plain
        for name, part, item in zip(self._row_names, self.parts, values, strict=True):
            try:
                plain.append(None if item is None else part.to_plain(item))
            except StateError as error:
                message = f"Field {name!r}: {error.message}"
                raise StateError(message, hint=error.hint) from error
        return plain

    @override
    def from_plain(self, plain: Any) -> Any:
        kind, *values = plain
        if len(values) != len(self.parts) or not self.all_right(values):
            values = [None if item is None else part.from_plain(item) for part, item in zip(self.parts, values, strict=True)]
        row = Row.of_fields(self._row_names, values)
        if kind != 0:
            row.set_row_kind(RowKind(kind))
        return row

    @override
    def all_to_plain(self, values: Sequence[Any]) -> list[Any]:
        fields = inserted_values(self._row_names, values)
        if fields is None or not self.rights or not columns_are_right(self.rights, fields):
            return super().all_to_plain(values)
        return [[0, *row] for row in fields]

    @override
    def all_from_plain(self, plains: Sequence[Any]) -> list[Any]:
        if not self.rights or not columns_are_right([_INSERTED, *self.rights], plains):
            return super().all_from_plain(plains)
        return rows_of(self._row_names, [map(itemgetter(place), plains) for place in range(1, 1 + len(self.parts))])

    @override
    def encode_key(self, value: Any) -> bytes:
        if not is_row(value):
            value = self.conformed_key(as_row, value)
        names, values = value.field_names(), value.values_list()
        wanted = self._names
        if names is not None and wanted is not None and names != wanted:
            if set(names) != set(wanted):
                raise wrong_key(value, self.name)
            values = [value[name] for name in wanted]
        return row_head(value.get_row_kind(), wanted) + self.key_elements(values, self.parts)

    @override
    def decode_key(self, data: bytes) -> Row:
        kind, names, rest = split_row_head(data)
        if names != self._names:
            message = f"A key in the snapshot has the field names {names}, which doesn't fit the key type {self.name}."
            raise RestoreError(message)
        row = Row.of_fields(self._row_names, self.split_key(rest))
        row.set_row_kind(kind)
        return row

    @property
    @override
    def arrow_type(self) -> pa.DataType:
        return _struct_type(self._type_info.get_field_names(), self.parts)

    @override
    def read_values(self, cells: PackedCells) -> pa.Array:
        require(bool((cells.counts() == len(self.parts) + 1).all()))
        cells.expect(0)  # a column can't represent another kind than INSERT
        return _struct_of(cells, self.parts, self.arrow_type)

    @override
    def write_values(self, column: ValueColumn) -> pa.Array:
        return column.structs(self._type_info.get_field_names(), [part.write_values for part in self.parts], b"\x00")


def _struct_type(names: Sequence[str], parts: Sequence[Format]) -> pa.DataType:
    import pyarrow as pa  # noqa: PLC0415 - the command line has no Arrow

    return pa.struct([pa.field(name, part.arrow_type) for name, part in zip(names, parts, strict=True)])


def _struct_of(cells: PackedCells, parts: Sequence[Format], arrow_type: pa.DataType) -> pa.Array:
    """Read the fields of each row."""
    return cells.struct([cells.nullable(part.read_values) for part in parts], arrow_type, len(cells.at))


_INSERTED = Right(int, 0, 0)
"""The check for the number of the most common row kind."""
