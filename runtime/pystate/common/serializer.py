"""Serializers that a program may write itself, with PyFlink's names: today for the windows of its own assigners."""

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
