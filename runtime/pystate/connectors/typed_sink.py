"""Sinks that depend on the type of their elements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from pystate.common.type_info import TypeInformation
from pystate.connectors.sink import Sink


class SupportsElementType(ABC):
    """Mixed into a sink that depends on the type of the stream."""

    @abstractmethod
    def for_elements_of(self, type_info: TypeInformation | None) -> Sink[Any]:
        """Return the sink for a stream of this type, None for an untyped one; doesn't modify this sink."""
