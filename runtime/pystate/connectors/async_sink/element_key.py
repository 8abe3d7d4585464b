"""Keys of elements, as builders of sinks take them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pystate.common.errors import ConfigurationError, RecordError
from pystate.common.text.bounded_text import shown

KeyPart = str | int | Callable[[Any], Any]
"""The name of a field, its place in a tuple, or a function that makes the whole key."""


def key_function(call: str, parts: Sequence[KeyPart], prefix: str = "") -> Callable[[Any], Any]:
    """Return what makes a key of an element.

    Args:
        call: The method of the builder.
        parts: What a program gave: fields, or one function.
        prefix: The text before fields.

    Raises:
        ConfigurationError: It gave something else.
    """
    if len(parts) == 1 and callable(parts[0]) and not prefix:
        return parts[0]
    fields = [part for part in parts if isinstance(part, (str, int))]
    if fields and len(fields) == len(parts):
        return FieldsOfKey(prefix, fields)
    message = f"{call}() takes fields, or one function."
    raise ConfigurationError(message, hint=f'{call}("id"), or {call}(lambda row: ...)')


class FieldsOfKey:
    """Makes a key from fields of an element.

    Args:
        prefix: The text before it.
        fields: Their names, or their places in a tuple; joined by colons.
    """

    def __init__(self, prefix: str, fields: Sequence[str | int]) -> None:
        self.prefix = prefix
        self.fields = tuple(fields)

    def __call__(self, element: Any) -> str:
        """Return the key.

        Raises:
            RecordError: A field is missing, or None, or bytes.
        """
        try:
            values = [element[field] for field in self.fields]
        except (LookupError, TypeError, ValueError) as error:
            message = f"An element has no field {error} for its key: {shown(element)}"
            raise RecordError(message, hint="set_key(...) names the fields of the key, or makes it") from error
        if None in values:
            message = f"The key of an element is None: {shown(element)}"
            raise RecordError(message, hint="leave such elements out before the sink")
        if any(isinstance(value, (bytes, bytearray)) for value in values):
            message = f"Bytes in the key of an element have no text: {shown(element)}"
            raise RecordError(message, hint="a function makes the key: set_key(lambda row: row.id.hex())")
        return self.prefix + ":".join(str(value) for value in values)
