"""A serializer that supports None, for map values."""

from __future__ import annotations

from typing import Any

from pystate.common.overrides import override
from pystate.core.state.values.serializers import TypeSerializer
from pystate.core.state.values.value_format import pack

_NIL: bytes = pack(None)


class NullableSerializer(TypeSerializer):
    """Wraps another serializer and encodes None as msgpack's nil, which no other serializer uses.

    Its snapshot is the other's; that None may be there follows from the state's kind.
    """

    def __init__(self, serializer: TypeSerializer) -> None:
        self.serializer = serializer
        self.type_info = serializer.type_info
        self.type_name = serializer.type_name
        self.immutable = serializer.immutable
        self.exact_type = serializer.exact_type
        self.integer_range = serializer.integer_range
        self._serialize = serializer.serialize
        self._deserialize = serializer.deserialize

    def check(self, value: Any) -> Any:
        """Return the value in the stored form."""
        return None if value is None else self.serializer.check(value)

    @override
    def serialize(self, value: Any) -> bytes:
        return _NIL if value is None else self._serialize(value)

    @override
    def deserialize(self, data: bytes) -> Any:
        return None if data == _NIL else self._deserialize(data)

    def snapshot(self) -> dict[str, Any]:
        """Return the description of the wrapped serializer."""
        return self.serializer.snapshot()
