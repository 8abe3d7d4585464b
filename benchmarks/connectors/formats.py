"""Rows/s of messages and files of Avro, beside fastavro's bare loop in the same run.

    .venv/bin/python benchmarks/connectors/formats.py [--rows 200000] [--rounds 5] [--registry URL]

Each way does the same messages or file in turn, round after round; the best round of each counts, by processor time. With
`--registry` (such as http://127.0.0.1:8081) also messages that name their schema.
"""

from __future__ import annotations

import argparse
import datetime as dt
import io
import json
import time
from collections.abc import Callable

import fastavro

from pystate.common import Row
from pystate.connectors.bad_records import BadRecords
from pystate.connectors.kafka.record_deserialization import (
    ConsumerRecord,
    KafkaRecordDeserializationSchema,
    RecordReading,
)
from pystate.datastream.formats.avro import (
    AvroBulkFormat,
    AvroBulkWriters,
    AvroDeserializationSchema,
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
)
from pystate.datastream.formats.schema_registry import (
    ConfluentRegistryAvroDeserializationSchema,
    ConfluentRegistryAvroSerializationSchema,
)

SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "customer", "type": ["null", "string"]},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "price", "type": "double"},
            {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
            {
                "name": "item",
                "type": {
                    "type": "record",
                    "name": "Item",
                    "fields": [{"name": "sku", "type": "string"}, {"name": "count", "type": "int"}],
                },
            },
        ],
    }
)


def order(number: int) -> Row:
    customer = None if number % 5 == 0 else f"customer {number % 1000}"
    at = dt.datetime(2026, 1, 31, 1, 2, number % 60)  # noqa: DTZ001 - ours have no zone
    item = Row(sku=f"sku {number % 97}", count=number % 7)
    return Row(id=number, customer=customer, at=at, price=number / 4, state="NEW" if number % 2 else "PAID", item=item)


def each(call: Callable[[bytes], object], messages: list[bytes]) -> Callable[[], None]:
    def run() -> None:
        for message in messages:
            call(message)

    return run


def read_file(records: object) -> None:
    while records.read(500) is not None:  # type: ignore[attr-defined]
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--registry")
    given = parser.parse_args()

    rows = [order(number) for number in range(given.rows)]
    messages = [AvroRowSerializationSchema(avro_schema_string=SCHEMA).serialize(row) for row in rows]
    parsed = fastavro.parse_schema(json.loads(SCHEMA))
    file = io.BytesIO()
    writer = AvroBulkWriters.for_generic_record(SCHEMA, "deflate").create(file)
    for row in rows:
        writer.add_element(row)
    writer.finish()
    data = file.getvalue()
    rows_schema = AvroRowDeserializationSchema(avro_schema_string=SCHEMA)
    skipping = RecordReading(KafkaRecordDeserializationSchema.value_only(rows_schema), BadRecords.skip())

    def bare(message: bytes) -> None:
        fastavro.schemaless_reader(io.BytesIO(message), parsed)

    ways = {
        "messages: fastavro's bare loop": each(bare, messages),
        "messages: dicts (AvroDeserializationSchema)": each(
            AvroDeserializationSchema.for_generic(SCHEMA).deserialize, messages
        ),
        "messages: rows (AvroRowDeserializationSchema)": each(rows_schema.deserialize, messages),
        "messages: rows, bad records skipped": each(
            lambda message: skipping.elements(ConsumerRecord("t", 0, 0, 0, None, message), print), messages
        ),
        "file: fastavro's bare loop": lambda: [None for _ in fastavro.reader(io.BytesIO(data))],
        "file: dicts": lambda: read_file(
            AvroBulkFormat.for_generic_record().in_slots(None, ()).open(io.BytesIO(data), "f", 0)
        ),
        "file: rows": lambda: read_file(AvroBulkFormat.for_rows(SCHEMA).in_slots(None, ()).open(io.BytesIO(data), "f", 0)),
    }
    if given.registry:
        writes = ConfluentRegistryAvroSerializationSchema.for_rows("benchmark", SCHEMA, given.registry)
        framed = [writes.serialize(rows[0])[:5] + message for message in messages]
        reads = ConfluentRegistryAvroDeserializationSchema.for_rows(SCHEMA, given.registry)
        ways["messages: rows, schema registry"] = each(reads.deserialize, framed)

    best = dict.fromkeys(ways, float("inf"))
    for _ in range(given.rounds):
        for name, run in ways.items():
            start = time.process_time()
            run()
            best[name] = min(best[name], time.process_time() - start)
    print("| | rows/s | bare loop's time, times |\n|---|---|---|")
    for name, seconds in best.items():
        bare_s = best[f"{name.partition(':')[0]}: fastavro's bare loop"]
        print(f"| {name} | {given.rows / seconds:,.0f} | {seconds / bare_s:.2f} |")


if __name__ == "__main__":
    main()
