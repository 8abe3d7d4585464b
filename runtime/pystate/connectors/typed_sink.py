"""Sinks that want to know what they get."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from pystate.common.type_info import TypeInformation
from pystate.connectors.sink import Sink


class SupportsElementType(ABC):
    """Mixed into a sink that deals with elements by the type of their stream."""

    @abstractmethod
    def for_elements_of(self, type_info: TypeInformation | None) -> Sink[Any]:
        """Return the sink for a stream of this type, None for an untyped one; the sink itself stays as it is."""
