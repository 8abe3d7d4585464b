"""Sources and sinks, under PyFlink's module names."""

from pystate.connectors.bad_records import BAD_RECORD, BadRecords
from pystate.datastream.connectors.base import DeliveryGuarantee, Sink, Source

__all__ = ["BAD_RECORD", "BadRecords", "DeliveryGuarantee", "Sink", "Source"]
