"""Sources and sinks, under the module names PyFlink has them."""

from pystate.datastream.connectors.base import DeliveryGuarantee, Sink, Source

__all__ = ["DeliveryGuarantee", "Sink", "Source"]
