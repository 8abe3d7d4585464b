"""The formats of lists, arrays and maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pystate.common.overrides import override
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.common.type_rules import as_dict, as_list
from pystate.core.state.formats.composite_format import Composite
from pystate.core.state.formats.key_bytes import TAG_LIST, split_elements
from pystate.core.state.formats.type_format import Format
from pystate.core.state.not_in_columns import require

if TYPE_CHECKING:
    import pyarrow as pa

    from pystate.core.state.formats.packed_columns import PackedCells, ValueColumn


class ListFormat(Composite):
    """Lists and arrays."""

    tag = TAG_LIST

    def __init__(self, type_info: TypeInformation, parts: Sequence[Format]) -> None:
        super().__init__(type_info, parts)
        self._element = self.parts[0]
        self._nullable = type_info.kind is not TypeKind.PRIMITIVE_ARRAY
        self._all_right = _list_check(self._element)

    @override
    def check(self, value: Any) -> Any:
        return value if type(value) is list else self.conformed(as_list, value)

    @override
    def to_plain(self, value: Any) -> Any:
        if type(value) is not list:
            value = self.conformed(as_list, value)
        if self._all_right(value):
            return value
        to_plain = self._element.to_plain
        if self._nullable:
            return [None if item is None else to_plain(item) for item in value]
        return [to_plain(item) for item in value]

    @override
    def from_plain(self, plain: Any) -> Any:
        if type(plain) is not list:
            raise self.wrong(plain)
        if self._all_right(plain):
            return plain
        from_plain = self._element.from_plain
        return [None if item is None else from_plain(item) for item in plain]

    @override
    def encode_key(self, value: Any) -> bytes:
        if type(value) is not list:
            value = self.conformed_key(as_list, value)
        return self.key_elements(value, [self._element] * len(value))  # None in an array, too: older snapshots have it

    @override
    def decode_key(self, data: bytes) -> list[Any]:
        found = split_elements(data)
        return self.values_of_key(found, [self._element] * len(found))

    @property
    @override
    def arrow_type(self) -> pa.DataType:
        import pyarrow as pa  # noqa: PLC0415 - the command line has no Arrow

        return pa.list_(self._element.arrow_type)

    @override
    def read_values(self, cells: PackedCells) -> pa.Array:
        counts, arrow_type = cells.counts(), self.arrow_type
        (values,) = cells.elements(counts, [lambda some: some.nullable(self._element.read_values)], [arrow_type.value_type])
        return cells.lists(counts, values, arrow_type)

    @override
    def write_values(self, column: ValueColumn) -> pa.Array:
        require(self._nullable)
        return column.lists(self._element.write_values)


def _list_check(element: Format) -> Callable[[list[Any]], bool]:
    """Return a fast check whether all elements of a list are exactly of the type."""
    right = element.right
    if right is None:
        return lambda values: not values
    exact, low, high = right

    def all_integers(values: list[Any]) -> bool:
        for value in values:
            if type(value) is not int or value > high or value < low:
                return False
        return True

    def all_exact(values: list[Any]) -> bool:
        for value in values:  # noqa: SIM110 - all(...) takes twice as long
            if type(value) is not exact:
                return False
        return True

    return all_integers if exact is int else all_exact


class MapFormat(Composite):
    """Maps: a flat list of keys and values, so that keys can be of any type."""

    @override
    def check(self, value: Any) -> Any:
        return value if type(value) is dict else self.conformed(as_dict, value)

    @override
    def to_plain(self, value: Any) -> Any:
        if type(value) is not dict:
            value = self.conformed(as_dict, value)
        key_to_plain, value_to_plain = self.parts[0].to_plain, self.parts[1].to_plain
        plain: list[Any] = []
        for key, item in value.items():
            plain.append(key_to_plain(key))
            plain.append(None if item is None else value_to_plain(item))
        return plain

    @override
    def from_plain(self, plain: Any) -> Any:
        if type(plain) is not list or len(plain) % 2:
            raise self.wrong(plain)
        key_from_plain, value_from_plain = self.parts[0].from_plain, self.parts[1].from_plain
        pairs = zip(plain[::2], plain[1::2], strict=True)
        return {key_from_plain(key): None if item is None else value_from_plain(item) for key, item in pairs}

    @property
    @override
    def arrow_type(self) -> pa.DataType:
        import pyarrow as pa  # noqa: PLC0415 - the command line has no Arrow

        return pa.map_(*(part.arrow_type for part in self.parts))

    @override
    def read_values(self, cells: PackedCells) -> pa.Array:
        counts, arrow_type = cells.counts(), self.arrow_type
        require(not (counts % 2).any())
        key, value = self.parts
        keys, values = cells.elements(
            counts // 2,
            [key.read_values, lambda some: some.nullable(value.read_values)],
            [arrow_type.key_type, arrow_type.item_type],
        )
        require(key.distinct)
        return cells.maps(counts // 2, keys, values, arrow_type)
