"""Generated classes of messages, which other processes can make again."""

from __future__ import annotations

from typing import Any

from pystate.common.errors import JobGraphError
from pystate.connectors.client_package import imported


def message_factory() -> Any:
    """Return the module of protobuf that makes classes.

    Raises:
        JobGraphError: protobuf isn't installed.
    """
    message = "Protobuf needs the package protobuf, which isn't installed."
    return imported("google.protobuf.message_factory", message, "protobuf")


class MessageClass:
    """A generated class; it is sent as what it was generated of, and made again without its module.

    Args:
        generated: The class, such as `orders_pb2.Order`.

    Raises:
        JobGraphError: It isn't such a class, or protobuf isn't installed.
    """

    def __init__(self, generated: Any) -> None:
        message_factory()
        from google.protobuf.message import Message

        if not isinstance(generated, type) or not issubclass(generated, Message):
            message = f"A generated class of Protobuf is needed, not {generated!r}."
            raise JobGraphError(message, hint="protoc --python_out makes a module with such classes: orders_pb2.Order")
        made: Any = generated
        self._class: Any = made
        self.name: str = made.DESCRIPTOR.full_name
        self._files = _files(made.DESCRIPTOR.file)

    @property
    def of_messages(self) -> Any:
        """The class."""
        if self._class is None:
            factory = message_factory()
            from google.protobuf.descriptor_pool import DescriptorPool

            pool = DescriptorPool()
            for file in self._files:
                pool.AddSerializedFile(file)
            self._class = factory.GetMessageClass(pool.FindMessageTypeByName(self.name))
        return self._class

    def __getstate__(self) -> dict[str, Any]:
        """Return the pickled state."""
        return {**self.__dict__, "_class": None}


def _files(last: Any) -> list[bytes]:
    """Return the files that a class was generated of, those before it that it imports."""
    found: dict[str, bytes] = {}

    def add(file: Any) -> None:
        if file.name not in found:
            for imported in file.dependencies:
                add(imported)
            found[file.name] = file.serialized_pb

    add(last)
    return list(found.values())
