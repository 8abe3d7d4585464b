"""The codec between elements and Arrow columns.

A ROW is converted to its columns, a TUPLE to `f0`, `f1`, ..., any other typed element to one column `value`. Untyped
elements are pickled into one binary column: they are only exchanged between processes of one job and are never durable.

The columns of a ROW don't include its kind. Where a stream carries kinds, a batch with a row that isn't an INSERT has the
column `KIND_FIELD`, and one without needs none; elsewhere such a row is rejected, and so are rows within a row.
"""

from __future__ import annotations

import math
import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, ClassVar

import pyarrow as pa

from pystate.common.errors import RecordError
from pystate.common.row import Row, RowKind, row_class, rows_of, when_kinds_are_used
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.common.type_rules import (
    WrongValueError,
    as_dict,
    as_list,
    conform_to,
)
from pystate.common.user_code.program_classes import pickled
from pystate.core.records.prepared_code import (
    WritePrepare,
    WriteSize,
    write_call,
    write_fields,
    write_fields_size,
    write_size,
)
from pystate.core.records.sizes import Measure, list_size, map_size, struct_size, too_large
from pystate.core.state.formats.all_formats import known_format

RESERVED_PREFIX = "__pystate_"
KEY_FIELD = RESERVED_PREFIX + "key"
KEY_GROUP_FIELD = RESERVED_PREFIX + "key_group"
ROUTE_FIELD = RESERVED_PREFIX + "route"
PARTITION_FIELD = RESERVED_PREFIX + "partition"
TIMESTAMP_FIELD = RESERVED_PREFIX + "timestamp"
"""The column with the times of elements, ms since 1970; null where one has none."""
KIND_FIELD = RESERVED_PREFIX + "kind"
"""The column with the numbers of the rows' kinds (`RowKind`); null for INSERT."""
KIND_COLUMN = pa.field(KIND_FIELD, pa.int8())
VALUE_FIELD = "value"

Convert = Callable[[Any], Any]

_REFUSALS = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, UnicodeEncodeError)
_SHOWN = 200
"""Characters of a wrong value in an error: a large one would fill logs, and all messages that carry the error."""

_FLOAT = pa.float32()
_NONE = type(None)


_kinds_used = False
"""Whether this process has made rows of other kinds than INSERT."""
_plain_row: type[Any] = Row
"""The class of rows whose kind need not be checked; no class, once there are other kinds."""


class _NoRow:
    """A class that no row has."""


def _look_at_kinds() -> None:
    global _kinds_used, _plain_row  # noqa: PLW0603
    _kinds_used, _plain_row = True, _NoRow


when_kinds_are_used(_look_at_kinds)


class _UpdateBefore(tuple[Any, ...]):
    """The prepared fields of an UPDATE_BEFORE; those of an INSERT are a tuple."""

    __slots__ = ()
    kind: ClassVar = RowKind.UPDATE_BEFORE


class _UpdateAfter(tuple[Any, ...]):
    """The prepared fields of an UPDATE_AFTER."""

    __slots__ = ()
    kind: ClassVar = RowKind.UPDATE_AFTER


class _Delete(tuple[Any, ...]):
    """The prepared fields of a DELETE."""

    __slots__ = ()
    kind: ClassVar = RowKind.DELETE


_CHANGES: dict[RowKind, Callable[[Any], tuple[Any, ...]]] = {
    made.kind: made for made in (_UpdateBefore, _UpdateAfter, _Delete)
}
_NUMBERS: dict[type, int] = {made: made.kind.value for made in (_UpdateBefore, _UpdateAfter, _Delete)}
_KINDS = tuple(RowKind)


def has_kinds(batch: pa.RecordBatch) -> bool:
    """Return whether a batch has a row of another kind than INSERT."""
    place = batch.schema.get_field_index(KIND_FIELD)
    return place >= 0 and bool(batch.column(place).null_count < batch.num_rows)


@dataclass(frozen=True)
class ColumnConverter:
    """The conversion of one type to and from Arrow; None for a direction means unchanged.

    Attributes:
        size: Measures what `to_arrow` gave; None if all values have the same few bytes.
        exact: Values of exactly these types are converted or rejected by Arrow itself as by their type's rule; None if
            `to_arrow` does that.
        conform: The rule, for all others.
        overflowing: Types of `exact` whose values may exceed the range, which `to_array` only checks for a whole column.
    """

    arrow_type: pa.DataType
    to_arrow: Convert | None = None
    from_arrow: Convert | None = None
    size: Measure | None = None
    exact: frozenset[type] | None = None
    conform: Convert | None = None
    overflowing: frozenset[type] = frozenset()


def column_converter(type_info: TypeInformation | None) -> ColumnConverter:
    """Return the conversion of a type to Arrow; untyped elements and PICKLED_BYTE_ARRAY are pickled."""
    form = known_format(type_info)
    arrow_type = form.arrow_type
    if type_info is None or type_info.kind is TypeKind.PICKLED_BYTE_ARRAY:
        return ColumnConverter(arrow_type, pickled, pickle.loads, len)
    kind, size = type_info.kind, len if form.sized else None
    if form.converted:
        return ColumnConverter(arrow_type, _none_safe(form.to_column), _none_safe(form.from_column), size)
    if kind is TypeKind.ROW or kind is TypeKind.TUPLE:
        return _struct_converter(type_info, arrow_type)
    if not form.parts:
        conform = None if form.carried is None else _none_safe(conform_to(type_info))
        return ColumnConverter(arrow_type, size=size, exact=form.carried, conform=conform, overflowing=form.overflowing)
    if kind is TypeKind.MAP:
        return _map_converter(type_info, arrow_type)
    part = column_converter(type_info.elements[0])
    back = None if part.from_arrow is None else _none_safe(_over_list(part.from_arrow))
    return ColumnConverter(arrow_type, _none_safe(_list_to_arrow(type_info, part)), back, list_size(part.size))


def _none_safe(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _over_list(convert: Convert) -> Convert:
    return lambda values: [convert(value) for value in values]


def _list_to_arrow(type_info: TypeInformation, part: ColumnConverter) -> Convert:
    if part.to_arrow is not None:
        to_arrow = part.to_arrow
        return lambda values: [to_arrow(value) for value in (values if type(values) is list else as_list(values, type_info))]
    conform, exact = (
        conform_to(type_info),
        (part.exact or frozenset()) - part.overflowing,
    )
    if type_info.kind is TypeKind.PRIMITIVE_ARRAY:
        exact -= {_NONE}

    def plain_list(values: Any) -> list[Any]:
        if type(values) is list and exact.issuperset(map(type, values)):
            return list(values)  # not shared
        elements: list[Any] = conform(values)
        return elements

    return plain_list


def _inner(part: ColumnConverter) -> Convert:
    """Return the conversion to Arrow of a nested type, whose values aren't checked as a whole column."""
    conform = part.conform
    if part.exact is None or conform is None:
        return part.to_arrow or (lambda value: value)
    exact = part.exact - part.overflowing
    return lambda value: value if type(value) in exact else conform(value)


def _struct_converter(type_info: TypeInformation, arrow_type: pa.DataType) -> ColumnConverter:
    names = type_info.get_field_names()
    parts = [column_converter(part) for part in type_info.elements]
    inner = [_inner(part) for part in parts]
    fields = type_info.row_names
    is_tuple = type_info.kind is TypeKind.TUPLE

    def to_arrow(value: Any) -> dict[str, Any]:
        values = _fields_of(value, fields, type_info)
        return {name: convert(element) for name, convert, element in zip(names, inner, values, strict=True)}

    def from_arrow(struct: dict[str, Any]) -> Any:
        values = [
            struct[name] if part.from_arrow is None else part.from_arrow(struct[name])
            for name, part in zip(names, parts, strict=True)
        ]
        return tuple(values) if is_tuple else Row.of_fields(fields, values)

    size = struct_size({name: part.size for name, part in zip(names, parts, strict=True) if part.size is not None})
    return ColumnConverter(arrow_type, _none_safe(to_arrow), _none_safe(from_arrow), size)


def _map_converter(type_info: TypeInformation, arrow_type: pa.DataType) -> ColumnConverter:
    key, value = (column_converter(part) for part in type_info.elements)
    key_to, value_to = _inner(key), _inner(value)
    key_from, value_from = key.from_arrow or (lambda x: x), value.from_arrow or (lambda x: x)
    return ColumnConverter(
        arrow_type,
        _none_safe(lambda mapping: [(key_to(k), value_to(v)) for k, v in as_dict(mapping, type_info).items()]),
        _none_safe(lambda pairs: {key_from(k): value_from(v) for k, v in pairs}),
        map_size(key.size, value.size),
    )


def _fields_of(
    value: Any, names: tuple[str, ...], type_info: TypeInformation, *, kinds: bool = False
) -> list[Any] | tuple[Any, ...]:
    values: list[Any] | tuple[Any, ...]
    if isinstance(value, Row):
        if _kinds_used and not kinds and value.get_row_kind() is not RowKind.INSERT:
            raise _no_insert(value, type_info)
        values = _in_order(value, names, type_info)
    elif isinstance(value, (tuple, list)):
        values = value
    else:
        message = f"{value!r} is no {type_info.name}."
        raise RecordError(message, hint="return a Row or a tuple, or declare the right output_type")
    if len(values) != len(names):
        message = f"{value!r} has {len(values)} fields, {type_info.name} has {len(names)}."
        raise RecordError(message, hint="return all fields, or declare the right output_type")
    return values


def _no_insert(row: Row, type_info: TypeInformation) -> RecordError:
    message = f"A {type_info.name} has no place for its kind here: {row!r} would turn from {row.get_row_kind()} to +I."
    hint = (
        "between tasks of the micro-batch engine, set pystate.exchange.row-kinds = true; elsewhere, as within another row, "
        "make the kind a field of the row, or leave the type out: untyped rows keep their kind"
    )
    return RecordError(message, hint=hint)


def _in_order(row: Row, names: tuple[str, ...], type_info: TypeInformation) -> list[Any]:
    try:
        return row.values_as(names)
    except ValueError as error:
        message = f"{row!r} is no {type_info.name}: {error}"
        raise RecordError(message, hint="name the fields as the type does, or declare the right output_type") from error


def shown(value: Any) -> str:
    """Return a value for an error, truncated if it is long."""
    if isinstance(value, (str, bytes, bytearray, list, tuple)) and len(value) > _SHOWN:
        value = value[:_SHOWN]
    return _cut(repr(value))


def _cut(text: str) -> str:
    return text if len(text) <= 2 * _SHOWN else f"{text[: 2 * _SHOWN]}..."


def _no_utf8(value: Any, cause: UnicodeEncodeError, where: str) -> RecordError:
    lone = cause.object[cause.start]
    message = f"{shown(value)} can't be sent as text: {lone!r} is half of a surrogate pair, which UTF-8 has no bytes for."
    hint = (
        'mend the text, as text.encode("utf-8", "replace").decode() does, or leave the type out: untyped elements hold any'
    )
    return RecordError(message, where=where, hint=hint)


def to_array(
    values: list[Any], column: ColumnConverter, where: str, field: str | None = None, type_name: str | None = None
) -> pa.Array:
    """Return prepared values as a column, converted by the rule of their type.

    Args:
        values: The values, as `column.to_arrow` gave them.
        column: How their type crosses Arrow.
        where: The stream, for errors.
        field: Which field of the elements they are, for errors; None for the elements themselves.
        type_name: What the author calls the type, for errors; None for its name in Arrow.

    Raises:
        RecordError: One isn't of that type; it is shown, with `where`.
    """
    exact, conform = column.exact, column.conform
    try:
        if exact is None or conform is None or exact.issuperset(map(type, values)):
            fitting = values
        else:
            fitting = list(map(conform, values))
        array = pa.array(fitting, column.arrow_type)
        if isinstance(array, pa.ChunkedArray):  # what pyarrow makes of more than an array holds
            raise too_large(array.nbytes, where)
        if column.arrow_type != _FLOAT or not _beyond(fitting, array):
            return array
        raise OverflowError  # noqa: TRY301 - which Arrow makes infinite in silence
    except (*_REFUSALS, WrongValueError):  # whole numbers that a DOUBLE doesn't have exactly fit in the end
        fit = _fitting(column, where, field, type_name)
        return pa.array(list(map(fit, values)), column.arrow_type)


def _beyond(values: list[Any], array: pa.Array) -> bool:
    """Whether a finite number became infinite in 32 bits."""
    import pyarrow.compute as pc  # a check of a program, and its start, need it nowhere else

    return pc.any(pc.is_inf(array)).as_py() is True and any(
        value is not None and math.isinf(number) and not math.isinf(value)
        for value, number in zip(values, array.to_pylist(), strict=True)
        if number is not None
    )


def _fitting(column: ColumnConverter, where: str, field: str | None, type_name: str | None) -> Convert:
    """Return the function that converts a value, or raises an error with the field and the reason."""
    conform, arrow_type = column.conform or (lambda value: value), column.arrow_type

    def fit(value: Any) -> Any:
        try:
            right = conform(value)
            pa.array([right], arrow_type)
        except UnicodeEncodeError as cause:
            raise _no_utf8(value, cause, where) from cause
        except (*_REFUSALS, WrongValueError) as cause:
            of_field = "" if field is None else f"Field {field!r}: "
            why = cause.why if isinstance(cause, WrongValueError) else _cut(str(cause))
            message = (
                f"{of_field}{shown(value)} is no {type_name or arrow_type}: {why or f'it is {type(value).__qualname__}'}"
            )
            raise RecordError(message, where=where, hint="declare the right output_type or key_type") from cause
        return right

    return fit


class RecordCodec:
    """Converts elements of one stream to Arrow arrays and back.

    Args:
        type_info: The type of the elements, None if they are untyped.
        where: The stream's name, for errors.
        kinds: Whether rows may have other kinds than INSERT; `kinds_of` returns those of what was prepared.

    Attributes:
        schema: The fields of the elements, without key, kind or route.
        prepare: Converts an element to the input of `encode`, immediately: later changes of the element don't affect the
            copy. None if elements of this type can't change.
        size: Measures what `prepare` gave; None if all elements have the same few bytes.
        write_prepare: As `prepare`, as lines of code.
        write_size: As `size`, as code.
    """

    def __init__(self, type_info: TypeInformation | None, where: str, *, kinds: bool = False) -> None:
        self._where = where
        self._columns: list[ColumnConverter] = []
        self._type_names: list[str] = []
        self._fields: tuple[str, ...] | None = None
        self._is_tuple = False
        self.prepare: Convert | None
        self.size: Measure | None
        self.write_prepare: WritePrepare | None
        self.write_size: WriteSize | None
        if type_info is not None and type_info.kind in (TypeKind.ROW, TypeKind.TUPLE) and type_info.elements:
            self._is_tuple = type_info.kind is TypeKind.TUPLE
            self._fields = type_info.row_names
            self._columns = [column_converter(part) for part in type_info.elements]
            self._type_names = [part.name for part in type_info.elements]
            self.prepare = self._prepare_fields(type_info, kinds=kinds and not self._is_tuple)
            if any(column.to_arrow for column in self._columns):
                self.write_prepare = write_call(self.prepare)
            else:
                self.write_prepare = write_fields(self._fields, sys.modules[__name__], self.prepare)
            sizes = {place: column.size for place, column in enumerate(self._columns) if column.size is not None}
            self.size = struct_size(sizes)
            self.write_size = None if self.size is None else write_fields_size(sizes, self.size)
            pairs = zip(self._fields, self._columns, strict=True)
            self.schema = pa.schema([pa.field(name, column.arrow_type) for name, column in pairs])
        else:
            column = column_converter(type_info)
            self._columns = [column]
            self._type_names = ["pickled element" if type_info is None else type_info.name]
            self.prepare = column.to_arrow
            self.size = column.size
            self.write_prepare = None if self.prepare is None else write_call(self.prepare)
            self.write_size = None if self.size is None else write_size(self.size)
            self.schema = pa.schema([pa.field(VALUE_FIELD, column.arrow_type)])

    def encode(self, prepared: list[Any]) -> list[pa.Array]:
        """Return a column per field of the schema."""
        if self._fields is None:
            return [to_array(prepared, self._columns[0], self._where, None, self._type_names[0])]
        return [  # a column at a time: `zip(*prepared)` would take all rows as arguments, more than twice as slow
            to_array(list(map(itemgetter(index), prepared)), column, self._where, name, type_name)
            for index, (column, name, type_name) in enumerate(
                zip(self._columns, self._fields, self._type_names, strict=True)
            )
        ]

    @staticmethod
    def kinds_of(prepared: list[Any]) -> pa.Array | None:
        """Return the column of the kinds of prepared rows; None if all are INSERTs."""
        if not _kinds_used:
            return None
        numbers = list(map(_NUMBERS.get, map(type, prepared)))
        return pa.array(numbers, KIND_COLUMN.type) if any(numbers) else None

    def decode(self, batch: pa.RecordBatch) -> list[Any]:
        """Return the elements of a batch that has the schema's fields first."""
        return self.with_kinds(batch, self.elements_of(self.decode_columns(batch)))

    @staticmethod
    def with_kinds(batch: pa.RecordBatch, elements: list[Any]) -> list[Any]:
        """Return the elements of a batch, with the kinds that its rows have."""
        if (place := batch.schema.get_field_index(KIND_FIELD)) >= 0:
            for element, number in zip(elements, batch.column(place).to_pylist(), strict=True):
                if number:
                    element.set_row_kind(_KINDS[number])
        return elements

    def decode_columns(self, batch: pa.RecordBatch) -> list[list[Any]]:
        """Return the values of each field, of a batch as `decode` takes it."""
        return [column_values(batch.column(i), column) for i, column in enumerate(self._columns)]

    def values_of(self, place: int, prepared: list[Any]) -> list[Any]:
        """Return the values that a field has once its prepared values have gone through Arrow.

        Raises:
            ValueError, TypeError, OverflowError: One isn't of the field's type.
        """
        return column_values(pa.array(prepared, self.schema.field(place).type, from_pandas=False), self._columns[place])

    def elements_of(self, columns: list[list[Any]]) -> list[Any]:
        """Return the elements, of what `decode_columns` gave; rows are INSERTs (see `with_kinds`)."""
        if self._fields is None:
            return columns[0]
        if self._is_tuple:
            return list(zip(*columns, strict=True))
        return rows_of(self._fields, columns)

    def plain_field(self, name: str) -> int | None:
        """Return the position of a field whose values are unchanged Arrow values; None for other fields."""
        place = self.schema.get_field_index(name)
        return place if place >= 0 and self._columns[place].from_arrow is None else None

    def _prepare_fields(self, type_info: TypeInformation, *, kinds: bool) -> Convert:
        names = type_info.row_names
        count = len(names)
        converts = [column.to_arrow for column in self._columns]
        decoded_row = row_class(names)  # of rows that come from a stream of the same fields
        if not any(converts):

            def prepare(element: Any) -> tuple[Any, ...]:
                if type(element) is tuple and len(element) == count:  # those that functions give most often come first
                    return element
                kind = type(element)
                if kind is _plain_row:  # read directly: a call takes as long as all the rest
                    fields, values = element._fields, element._values  # noqa: SLF001
                    if (fields is None or fields == names) and len(values) == count:
                        return tuple(values)
                elif kind is decoded_row and not _kinds_used:
                    return tuple(element._values)  # noqa: SLF001
                made = tuple(_fields_of(element, names, type_info, kinds=kinds))
                return _of_kind(element, made) if _kinds_used and kinds else made

            return prepare

        def convert_all(element: Any) -> tuple[Any, ...]:
            made = tuple(
                value if convert is None else convert(value)
                for convert, value in zip(converts, _fields_of(element, names, type_info, kinds=kinds), strict=True)
            )
            return _of_kind(element, made) if _kinds_used and kinds else made

        return convert_all


def _of_kind(element: Any, prepared: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return prepared fields that know the kind of their row, if it isn't INSERT."""
    kind = element.get_row_kind() if isinstance(element, Row) else RowKind.INSERT
    return prepared if kind is RowKind.INSERT else _CHANGES[kind](prepared)


def column_values(array: pa.Array, column: ColumnConverter) -> list[Any]:
    """Return the values of an Arrow column of that form."""
    if pa.types.is_timestamp(array.type) and array.type.tz is not None:
        array = array.cast(pa.timestamp("us"))  # Spark's TIMESTAMP: an instant, given as datetime in UTC without a zone
    values: list[Any] = array.to_pylist()
    if column.from_arrow is None:
        return values
    convert = column.from_arrow
    return [convert(value) for value in values]
