"""The job of the campaign of pairs: words of one source or several are counted, and each count goes to four sinks.

    pairs_job.py SETTINGS.json

Words say which source they come from by what stands before their dash. So one kill is a kill under each pair of a
source and a sink.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[3]))

from pystate.common import Types
from pystate.common.serialization import Encoder, SimpleStringSchema
from pystate.connectors.delivery_guarantee import DeliveryGuarantee
from pystate.connectors.sql import SqlSink
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.connectors.file_system import FileSink, FileSource, OutputFileConfig, RollingPolicy
from pystate.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from tests.faults.injection import Faults
from tests.faults.workload import COUNTED, Count, Generator

SINKS = ("Kafka", "files", "PostgreSQL", "upsert")
UPSERTS = "last_counts"
COUNTS = "counts"


GENERATOR = Generator("generator", 23, 0.04)
"""Gives some tens a second."""


class Key(SimpleStringSchema):
    """The word, so that all its counts are in one partition."""

    def serialize(self, element: Any) -> bytes:
        return super().serialize(element.partition(":")[0])


def _from_kafka(env: Any, settings: dict[str, Any]) -> Any:
    source = KafkaSource.builder().set_bootstrap_servers(settings["kafka"]).set_topics(settings["topic_in"])
    source = source.set_starting_offsets(KafkaOffsetsInitializer.earliest())
    source = source.set_value_only_deserializer(SimpleStringSchema()).build()
    return env.from_source(source, None, "from kafka").uid("from-kafka")


def _from_files(env: Any, settings: dict[str, Any]) -> Any:
    source = FileSource(settings["folder_in"], monitor_interval_ms=1000, max_files_per_epoch=5)
    return env.from_source(source, None, "from files").uid("from-files")


def _from_generator(env: Any, settings: dict[str, Any]) -> Any:
    return env.add_source(GENERATOR, "from generator", Types.STRING()).uid("from-generator")


SOURCES: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "kafka": _from_kafka,
    "files": _from_files,
    "generator": _from_generator,
}


def kafka_sink(settings: dict[str, Any]) -> KafkaSink:
    """Make the one that writes transactions."""
    records = KafkaRecordSerializationSchema.builder().set_topic(settings["topic_out"]).set_key_serialization_schema(Key())
    sink = KafkaSink.builder().set_bootstrap_servers(settings["kafka"])
    sink = sink.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_marker_topic(settings["topic_of_markers"])
    return sink.set_record_serializer(records.set_value_serialization_schema(SimpleStringSchema()).build()).build()


def file_sink(settings: dict[str, Any]) -> FileSink:
    """Make the one that writes text."""
    builder = FileSink.for_row_format(settings["folder_out"], Encoder.simple_string_encoder())
    builder = builder.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
    return builder.with_output_file_config(OutputFileConfig.builder().with_part_suffix(".txt").build()).build()


def sql_sink(settings: dict[str, Any]) -> SqlSink:
    """Make the one that writes rows and a marker in one transaction."""
    return SqlSink.builder().set_url(settings["database"]).set_table(COUNTS).set_columns("word", "number").build()


def upsert_sink(settings: dict[str, Any]) -> SqlSink:
    """Make the one that writes the last count of each word."""
    builder = SqlSink.builder().set_url(settings["database"]).set_table(UPSERTS).set_columns("word", "number")
    builder = builder.set_upsert_keys("word").set_batch_interval_ms(50).set_max_retries(30)
    return builder.set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE).build()


def run(settings: dict[str, Any]) -> None:
    """Run the job.

    Args:
        settings: What the campaign has made for it.
    """
    faults = Faults(Path(settings["faults"]))
    env = StreamExecutionEnvironment.get_execution_environment()
    first, *others = [SOURCES[name](env, settings) for name in settings["sources"]]
    words = first.union(*others) if others else first
    counted = words.key_by(lambda word: word, key_type=Types.STRING()).process(Count(faults=faults), COUNTED).uid("count")
    lines = counted.map(lambda pair: f"{pair[0]}:{pair[1]}", Types.STRING()).uid("lines")
    lines.sink_to(kafka_sink(settings)).uid("kafka")
    lines.sink_to(file_sink(settings)).uid("files")
    counted.sink_to(sql_sink(settings)).uid("sql")
    counted.sink_to(upsert_sink(settings)).uid("upserts")
    env.execute("pairs")


if __name__ == "__main__":
    given = json.loads(Path(sys.argv[1]).read_text())
    Faults(Path(given["faults"])).install()
    run(given)
