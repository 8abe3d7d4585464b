"""Base classes of connectors, under PyFlink's module name."""

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
    """Adds steps before a sink."""

    @abstractmethod
    def apply(self, ds: Any) -> Any:
        """Return the stream that the sink reads."""


class SupportsPreprocessing(ABC):
    """A sink that needs steps before it."""

    @abstractmethod
    def get_transformer(self) -> StreamTransformer:
        """Return the transformer that adds them."""
