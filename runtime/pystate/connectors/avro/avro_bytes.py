"""What bytes of Avro must be that fastavro doesn't look at: it takes an index of -1 for the last type of a union."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Check = Callable[[bytes, int], int]
"""Takes bytes and where a datum begins in them; returns where it ends."""
_FIXED_BYTES = {"null": 0, "float": 4, "double": 8}
_MOST_ITEMS = (1 << 31) - 1
_MOST_EMPTY = 1 << 16
"""How many items without a byte, such as nulls, an array may have: a few bytes that are damaged claim any number."""
_UNCHECKED = frozenset(["null", "int", "long", "float", "double", "bytes", "string", "fixed"])


def checks_of(parsed: Any) -> Check | None:
    """Return what checks data of a schema, as fastavro has it; None where fastavro looks at all that there is.

    The check raises a ValueError for an index that a union or an enum doesn't have, for a boolean that is neither 0 nor 1,
    for a block of an array or map whose size isn't what it says, and for many items without a byte; and an IndexError where
    the bytes end too early.
    """
    checks = _Checks(parsed)
    check = checks.of(parsed)
    return check if checks.has_something else None


class _Checks:
    def __init__(self, parsed: Any) -> None:
        tops = parsed if isinstance(parsed, list) else [parsed]
        named = [one.get("__named_schemas", {}) for one in tops if isinstance(one, dict)]
        self._named: dict[str, Any] = {name: schema for some in named for name, schema in some.items()}
        self._made: dict[str, Check] = {}
        self.has_something = False

    def of(self, schema: Any) -> Check:
        parts = self._parts_of(schema)
        return parts[0] if len(parts) == 1 else _joined(parts)

    def _parts_of(self, schema: Any) -> list[Check]:
        """Return the checks of a type: of a record those of its fields, and of records among these their own."""
        if isinstance(schema, dict) and schema["type"] in ("record", "error"):
            self._named[schema["name"]] = schema
            return [part for field in schema["fields"] for part in self._parts_of(field["type"])]
        return [self._check_of(schema)]

    def _check_of(self, schema: Any) -> Check:
        if isinstance(schema, list):
            self.has_something = True
            return _union([self.of(one) for one in schema])
        kind = schema["type"] if isinstance(schema, dict) else schema
        if isinstance(schema, dict) and "name" in schema:
            self._named[schema["name"]] = schema
        if isinstance(kind, (dict, list)):
            return self.of(kind)
        if kind in self._named and not isinstance(schema, dict):
            return self._of_name(kind)
        self.has_something |= kind not in _UNCHECKED
        return self._of_kind(kind, schema)

    def _of_kind(self, kind: str, schema: Any) -> Check:
        if kind in ("array", "map"):
            item = self.of(schema["items" if kind == "array" else "values"])
            return _blocks(item if kind == "array" else _joined([_text, item]), kind)
        if kind == "enum":
            return _enum(len(schema["symbols"]))
        if kind == "boolean":
            return _boolean
        if kind in ("int", "long"):
            return _number_end
        if kind in ("bytes", "string"):
            return _text
        size = schema["size"] if kind == "fixed" else _FIXED_BYTES[kind]
        return lambda _, at: at + size

    def _of_name(self, name: str) -> Check:
        """Return the check of a type by its name; one that contains itself is made when it is first met in data."""

        def check(data: bytes, at: int) -> int:
            made = self._made.get(name)
            if made is None:
                made = self._made[name] = self.of(self._named[name])
            return made(data, at)

        # of a type that is named only, what it has isn't known yet
        self.has_something = True
        return check


def _joined(parts: Sequence[Check]) -> Check:
    def check(data: bytes, at: int) -> int:
        for part in parts:
            if part is _number_end:  # most fields are numbers and texts: a call takes longer than what it does
                while data[at] > 0x7F:
                    at += 1
                at += 1
            elif part is _text:
                byte = data[at]
                at = at + 1 + (byte >> 1) if byte < 0x80 and not byte & 1 else _text(data, at)
            else:
                at = part(data, at)
        return at

    return check


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return a number and where it ends."""
    byte = data[at]
    number, shift = byte & 0x7F, 7
    while byte > 0x7F:
        at += 1
        byte = data[at]
        number |= (byte & 0x7F) << shift
        shift += 7
    return (number >> 1) ^ -(number & 1), at + 1


def _number_end(data: bytes, at: int) -> int:
    while data[at] > 0x7F:
        at += 1
    return at + 1


def _text(data: bytes, at: int) -> int:
    byte = data[at]
    if byte < 0x80 and not byte & 1:
        return at + 1 + (byte >> 1)
    length, at = _number(data, at)
    if length < 0:
        message = f"the length {length} of a text or of bytes is below 0"
        raise ValueError(message)
    return at + length


def _boolean(data: bytes, at: int) -> int:
    if data[at] > 1:
        message = f"a boolean is 0 or 1, not {data[at]}"
        raise ValueError(message)
    return at + 1


def _enum(symbols: int) -> Check:
    most = min(symbols, 64) << 1

    def check(data: bytes, at: int) -> int:
        byte = data[at]
        if byte < most and not byte & 1:
            return at + 1
        index, at = _number(data, at)
        if not 0 <= index < symbols:
            message = f"an enum of {symbols} symbols has none with the index {index}"
            raise ValueError(message)
        return at

    return check


def _union(parts: Sequence[Check]) -> Check:
    types = len(parts)
    short = {index << 1: part for index, part in enumerate(parts[:64])}

    def check(data: bytes, at: int) -> int:
        place = data[at]
        if place in short:
            return short[place](data, at + 1)
        index, at = _number(data, at)
        if not 0 <= index < types:
            message = f"a union of {types} types has none with the index {index}"
            raise ValueError(message)
        return parts[index](data, at)

    return check


def _blocks(item: Check, kind: str) -> Check:
    """Return the check of an array or map: blocks of items; one whose count is below 0 says its size in bytes."""

    def check(data: bytes, at: int) -> int:
        empty = 0
        while True:
            count, at = _number(data, at)
            if count == 0:
                return at
            size = None
            if count < 0:
                count = -count
                size, at = _number(data, at)
            if count > _MOST_ITEMS:
                message = f"a block of {kind} has {count} items"
                raise ValueError(message)
            began = at
            at = item(data, at)
            if at == began:
                empty += count
                if empty > _MOST_EMPTY:
                    message = f"{empty} items of an {kind} have no bytes"
                    raise ValueError(message)
            for _ in range(count - 1):
                at = item(data, at)
            if size is not None and at - began != size:
                message = f"a block of {kind} says that its {count} items have {size} bytes, and they have {at - began}"
                raise ValueError(message)

    return check
