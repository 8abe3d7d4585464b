"""Makes elements of the rows that Spark's connector reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pystate.connectors.bad_records import BadRecords, Refused, RefusedRecords
from pystate.connectors.kafka.record_deserialization import ConsumerRecord, KafkaRecordDeserializationSchema, RecordReading

if TYPE_CHECKING:
    import pyarrow as pa

    from pystate.core.api.row_decoder import DecodingContext

RECORD = "record"
"""The column with the parts of a record beside its value, where they are needed."""
PARTS = ("topic", "partition", "offset", "timestamp", "key", "headers")
"""The parts in it."""


class KafkaDecoder:
    """Deserializes elements from records.

    Args:
        schema: Makes the elements.
        bad_records: What is done with records that the schema refuses.

    Attributes:
        of_records: Whether it needs more of a record than its value.
        makes_several: See `RowDecoder`.
    """

    def __init__(self, schema: KafkaRecordDeserializationSchema, bad_records: BadRecords) -> None:
        self._schema = schema
        self._bad_records = bad_records
        self.of_records = self.makes_several = RecordReading(schema, bad_records).of_value is None

    def decode(self, batch: pa.RecordBatch, context: DecodingContext) -> Iterator[tuple[Any, int | None]]:
        """Yield the element of each record, None for none, or its elements; with the record's timestamp if present."""
        reading = RecordReading(self._schema, self._bad_records)
        deserialize = reading.of_value
        values = batch.column("value").to_pylist()
        times = batch.column("timestamp").to_pylist() if "timestamp" in batch.schema.names else [None] * len(values)
        if deserialize is None:
            yield from self._of_records(batch, values, times, reading, context)
            return
        for value, time in zip(values, times, strict=True):
            yield (None if value is None else deserialize(value)), time

    def _of_records(
        self, batch: pa.RecordBatch, values: list[Any], times: list[Any], reading: RecordReading, context: DecodingContext
    ) -> Iterator[tuple[Any, int | None]]:
        refused = RefusedRecords(self._bad_records, context)

        def refuse(record: Refused) -> None:
            refused.take(record, context.collect_side)

        columns = [column.to_pylist() for column in batch.column(RECORD).flatten()]
        for value, time, topic, partition, offset, at, key, headers in zip(values, times, *columns, strict=True):
            pairs = tuple((header["key"], header["value"]) for header in headers or ())
            yield reading.elements(ConsumerRecord(topic, partition, offset, at, key, value, pairs), refuse), time
