"""The interface of user-defined serializers, with PyFlink's names: at present for windows of user-defined assigners."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import BinaryIO, Generic, TypeVar

T = TypeVar("T")


class TypeSerializer(ABC, Generic[T]):
    """Writes elements of one type to a stream of bytes, and reads them from it."""

    @abstractmethod
    def serialize(self, element: T, stream: BinaryIO) -> None:
        """Write an element."""

    @abstractmethod
    def deserialize(self, stream: BinaryIO) -> T:
        """Read the next element."""
