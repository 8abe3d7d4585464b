"""The base of formats of types with parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pystate.common.errors import RestoreError
from pystate.common.type_info import TypeInformation
from pystate.common.type_rules import WrongValueError
from pystate.core.state.formats.field_checks import fields_check
from pystate.core.state.formats.key_bytes import TAG_NULL, element, split_elements, tag_name, wrong_key
from pystate.core.state.formats.type_format import Format


class Composite(Format):
    """Converts the outer type of values; the formats of the parts convert those.

    Args:
        type_info: The type.
        parts: The formats of its parts.
    """

    immutable = False

    def __init__(self, type_info: TypeInformation, parts: Sequence[Format]) -> None:
        self.name = type_info.name
        self.parts = parts
        self.in_columns = all(part.in_columns for part in parts)
        self._type_info = type_info

    def conformed(self, conform: Callable[[Any, TypeInformation], Any], value: Any) -> Any:
        """Convert the outer type of a value; its parts are unchanged."""
        try:
            return conform(value, self._type_info)
        except WrongValueError as error:
            raise self.wrong(value, error.why) from None

    def conformed_key(self, conform: Callable[[Any, TypeInformation], Any], value: Any) -> Any:
        """Convert the outer type of a key; its parts are unchanged."""
        try:
            return conform(value, self._type_info)
        except WrongValueError:
            raise wrong_key(value, self.name) from None

    def key_elements(self, values: Sequence[Any], parts: Sequence[Format]) -> bytes:
        """Return the elements of a key, one for each of `parts`."""
        if len(values) != len(parts):
            raise wrong_key(values, self.name)
        pieces = []
        for value, part in zip(values, parts, strict=True):
            pieces.append(_NULL_ELEMENT if value is None else element(part.tag, part.encode_key(value)))  # type: ignore[arg-type]
        return b"".join(pieces)

    def values_of_key(self, found: Sequence[tuple[int, bytes]], parts: Sequence[Format]) -> list[Any]:
        """Return the parts of a key, of its elements, one for each of `parts`."""
        if len(found) != len(parts):
            message = f"A key in the snapshot has {len(found)} parts, which doesn't fit the key type {self.name}."
            raise RestoreError(message)
        values: list[Any] = []
        for (tag, payload), part in zip(found, parts, strict=True):
            if tag == TAG_NULL:
                values.append(None)
                continue
            if tag != part.tag:
                message = f"A part of a key in the snapshot is {tag_name(tag)}, which doesn't fit the declared {part.name}."
                raise RestoreError(message)
            values.append(part.decode_key(payload))
        return values


_NULL_ELEMENT = element(TAG_NULL, b"")


class Fields(Composite):
    """The base of formats of types with fields: tuples and rows."""

    def __init__(self, type_info: TypeInformation, parts: Sequence[Format]) -> None:
        super().__init__(type_info, parts)
        rights = [part.right for part in parts if part.right is not None]
        self.rights = rights if len(rights) == len(parts) else None
        """When each field is valid unchanged; None if the format must check."""
        self.all_right: Callable[[Sequence[Any]], bool] = (
            fields_check(rights) if self.rights is not None else lambda values: False
        )
        """Whether all fields, as many as the parts, are exactly of their types: a fast check."""

    def split_key(self, data: bytes) -> list[Any]:
        """Return the fields of a key."""
        return self.values_of_key(split_elements(data), self.parts)
