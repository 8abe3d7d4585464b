"""The job of the campaign of pairs: words of one source or several are counted, and each count goes to several sinks.

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
from pystate.common.serialization import SimpleStringSchema
from pystate.common.time import Duration
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.connectors.delta import DeltaSource
from pystate.datastream.connectors.file_system import FileSource
from pystate.datastream.connectors.iceberg import IcebergSource
from pystate.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from pystate.datastream.formats.schema_registry import ConfluentRegistryAvroDeserializationSchema
from tests.faults.campaigns.pairs_outputs import AVRO, ROW, attach
from tests.faults.injection import Faults
from tests.faults.workload import COUNTED, Count, Generator

GENERATOR = Generator("generator", 23, 0.04)
"""Gives some tens a second."""
_LOOK = Duration.of_millis(500)


def _kafka(settings: dict[str, Any], topic: str, schema: Any) -> Any:
    source = KafkaSource.builder().set_bootstrap_servers(settings["kafka"]).set_topics(topic)
    source = source.set_starting_offsets(KafkaOffsetsInitializer.earliest())
    return source.set_value_only_deserializer(schema).build()


def _from_kafka(env: Any, settings: dict[str, Any]) -> Any:
    source = _kafka(settings, settings["topic_in"], SimpleStringSchema())
    return env.from_source(source, None, "from kafka").uid("from-kafka")


def _from_avro(env: Any, settings: dict[str, Any]) -> Any:
    schema = ConfluentRegistryAvroDeserializationSchema.for_rows(AVRO, settings["registry"])
    rows = env.from_source(_kafka(settings, settings["topic_avro_in"], schema), None, "from avro").uid("from-avro")
    return rows.map(lambda row: row.word, Types.STRING())


def _from_files(env: Any, settings: dict[str, Any]) -> Any:
    source = FileSource(settings["folder_in"], monitor_interval_ms=1000, max_files_per_epoch=5)
    return env.from_source(source, None, "from files").uid("from-files")


def _from_generator(env: Any, settings: dict[str, Any]) -> Any:
    return env.add_source(GENERATOR, "from generator", Types.STRING()).uid("from-generator")


def _from_delta(env: Any, settings: dict[str, Any]) -> Any:
    source = DeltaSource.for_continuous_row_data(str(Path(settings["tables"], "delta-in"))).with_row_type(ROW)
    rows = env.from_source(source.update_check_interval(_LOOK).build(), None, "from delta").uid("from-delta")
    return rows.map(lambda row: row.word, Types.STRING())


def _from_iceberg(env: Any, settings: dict[str, Any]) -> Any:
    source = IcebergSource.for_table("db.in").with_catalog("pairs", settings["catalogs"]["in"]).with_row_type(ROW)
    rows = env.from_source(source.streaming().monitor_interval(_LOOK).build(), None, "from iceberg").uid("from-iceberg")
    return rows.map(lambda row: row.word, Types.STRING())


SOURCES: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "kafka": _from_kafka,
    "files": _from_files,
    "generator": _from_generator,
    "avro": _from_avro,
    "delta": _from_delta,
    "iceberg": _from_iceberg,
}


def build(env: Any, settings: dict[str, Any]) -> None:
    """Add the job to an environment.

    Args:
        env: The environment.
        settings: What the campaign has made for it.
    """
    faults = Faults(Path(settings["faults"]))
    first, *others = [SOURCES[name](env, settings) for name in settings["sources"]]
    words = first.union(*others) if others else first
    counted = words.key_by(lambda word: word, key_type=Types.STRING()).process(Count(faults=faults), COUNTED).uid("count")
    for name in settings["sinks"]:
        attach(counted, name, settings)


def run(settings: dict[str, Any]) -> None:
    """Run the job."""
    env = StreamExecutionEnvironment.get_execution_environment()
    build(env, settings)
    env.execute("pairs")


if __name__ == "__main__":
    given = json.loads(Path(sys.argv[1]).read_text())
    Faults(Path(given["faults"])).install()
    run(given)
