"""Serialization of rows as messages of Protobuf."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pystate.common.overrides import override
from pystate.connectors.message_schemas import ReadingSchema, WritingSchema
from pystate.connectors.protobuf.message_class import MessageClass
from pystate.connectors.protobuf.protobuf_rows import protobuf_rows

__all__ = ["ProtobufRowDeserializationSchema", "ProtobufRowSerializationSchema"]


class ProtobufRowDeserializationSchema(ReadingSchema):
    """Deserializes rows from messages of a generated class (pystate only).

    Args:
        message_class: The class, such as `orders_pb2.Order`. Its module needn't be where slots run.

    Raises:
        JobGraphError: It isn't such a class, contains itself, or protobuf isn't installed.
    """

    def __init__(self, message_class: type) -> None:
        self._class = MessageClass(message_class)
        self.produced_type = protobuf_rows(self._class.of_messages.DESCRIPTOR).type_info
        self.what = f"message {self._class.name} of Protobuf"

    @override
    def reader(self) -> Callable[[bytes], Any]:
        parse = self._class.of_messages.FromString
        to_row = protobuf_rows(self._class.of_messages.DESCRIPTOR).to_row
        return lambda message: to_row(parse(message))


class ProtobufRowSerializationSchema(WritingSchema):
    """Serializes rows as messages of a generated class (pystate only).

    Args:
        message_class: The class, such as `orders_pb2.Order`.

    Raises:
        JobGraphError: It isn't such a class, contains itself, or protobuf isn't installed.
    """

    def __init__(self, message_class: type) -> None:
        self._class = MessageClass(message_class)
        self.what = protobuf_rows(self._class.of_messages.DESCRIPTOR).type_info.name

    @override
    def writer(self) -> Callable[[Any], bytes]:
        new = self._class.of_messages
        fill = protobuf_rows(new.DESCRIPTOR).fill

        def write(row: Any) -> bytes:
            message = new()
            fill(message, row)
            return bytes(message.SerializeToString())

        return write
