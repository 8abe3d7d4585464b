"""What connectors are made of, under the module name PyFlink has it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from pystate.common.not_there import not_there
from pystate.connectors.delivery_guarantee import DeliveryGuarantee
from pystate.connectors.sink import Sink
from pystate.connectors.source import Source

__all__ = ["DeliveryGuarantee", "JavaFunctionWrapper", "Sink", "Source", "StreamTransformer", "SupportsPreprocessing"]

JavaFunctionWrapper = not_there("JavaFunctionWrapper", "it wraps a Java class of Flink's.", "write the function in Python")


class StreamTransformer(ABC):
    """Puts steps in front of a sink."""

    @abstractmethod
    def apply(self, ds: Any) -> Any:
        """Return the stream that goes into the sink."""


class SupportsPreprocessing(ABC):
    """A sink that wants steps in front of it."""

    @abstractmethod
    def get_transformer(self) -> StreamTransformer:
        """Return what puts them there."""
