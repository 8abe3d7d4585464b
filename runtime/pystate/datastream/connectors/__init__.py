"""Sources and sinks, under PyFlink's module names."""

from pystate.datastream.connectors.base import DeliveryGuarantee, Sink, Source

__all__ = ["DeliveryGuarantee", "Sink", "Source"]
