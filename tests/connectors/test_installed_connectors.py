"""Connectors are found by entry points: pystate's own, and those of other distributions."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import pytest

from pystate.common.errors import ConnectorError
from pystate.connectors.installed_connectors import connectors, spark_formats
from tests.connectors.distributions import LAMP, ODD, found_in, install


@pytest.fixture
def path(tmp_path):
    with found_in(tmp_path):
        yield tmp_path


OURS = ["avro", "delta", "files", "http", "iceberg", "kafka", "mqtt", "protobuf", "redis", "schema-registry", "sql"]


def test_those_of_pystate_are_there():
    assert list(connectors()) == OURS
    assert [one.names for one in spark_formats() if one.names] == [("delta",), ("kafka",)]


def test_one_of_another_distribution_is_asked_like_ours(path):
    from pystate.runtime.engines.micro_batch.spark.source_progress import words
    from pystate.runtime.engines.micro_batch.spark.stream_formats import stream_format

    install(path, "pystate-lamp", "lamp = lamp_connector:Lamp", lamp_connector=LAMP)

    assert list(connectors()) == sorted([*OURS, "lamp"])
    assert words('{"blink":7}', {}) == "blink 7"
    assert stream_format("Lamp", "") is not None
    assert connectors()["lamp"].position_of_splits([{"lamp": 1}]) == '{"blink":7}'


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("import nosuch", "The connector 'bad' can't be loaded: ModuleNotFoundError: No module named 'nosuch'"),
        ("def Bad():\n    raise OSError('no disk')", "The connector 'bad' can't be loaded: OSError: no disk"),
        ("class Other: ...", "The connector 'bad' can't be loaded: AttributeError:"),
        ("Bad = dict", "The connector 'bad' is no Connector: its entry point makes dict."),
    ],
)
def test_one_that_is_broken_is_named_with_its_distribution(path, module, said):
    install(path, "pystate-bad", "bad = bad_connector:Bad", bad_connector=module)

    with pytest.raises(ConnectorError) as failed:
        connectors()

    assert failed.value.message.startswith(said)
    assert failed.value.where == "entry point bad = bad_connector:Bad of pystate-bad"
    assert failed.value.hint is not None


def test_one_whose_answer_fails_is_named(path):
    install(path, "pystate-odd", "odd = odd_connector:Odd", odd_connector=ODD)

    with pytest.raises(ConnectorError, match="The connector 'odd' fails: TypeError"):
        spark_formats()


def test_two_of_one_name_are_refused(path):
    install(path, "pystate-lamp", "kafka = lamp_connector:Lamp", lamp_connector=LAMP)

    with pytest.raises(ConnectorError, match="Two connectors are called 'kafka'") as failed:
        connectors()
    assert failed.value.hint == "pip uninstall pystate-lamp"


def test_an_installation_without_entry_points_is_told_from_one_without_connectors(path, monkeypatch):
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: ())

    with pytest.raises(ConnectorError, match="'pystate.connectors' are missing") as failed:
        connectors()
    assert "pip install --force-reinstall --no-deps pystate-spark" in str(failed.value.hint)


def test_all_works_without_the_clients_of_systems(tmp_path):
    program = """
        import sys
        messages = ("fastavro", "google.protobuf", "paho", "redis", "urllib3")
        for client in (*messages, "confluent_kafka", "deltalake", "pyiceberg", "sqlalchemy", "psycopg", "pymysql"):
            sys.modules[client] = None
        import importlib.util
        known = importlib.util.find_spec
        importlib.util.find_spec = lambda name, *rest: None if sys.modules.get(name, 0) is None else known(name, *rest)
        from pystate.common.configuration.configuration import Configuration
        from pystate.connectors.installed_connectors import connectors, spark_formats
        print(len(spark_formats()), *(name for one in connectors().values() for name in one.templates()))
        for connector in connectors().values():
            for finding in connector.check(Configuration()):
                text = finding.text.rpartition("; writing: ")[2].replace("jobs that use them need pip install", "...")
                print(finding.health.value, finding.name, text)
        from pystate.datastream.connectors import delta, http, iceberg, jdbc, kafka, mqtt, redis
        from pystate.datastream.formats import avro, change_data, protobuf, schema_registry
    """
    (tmp_path / "program.py").write_text("\n".join(line[8:] for line in program.splitlines()))

    done = subprocess.run([sys.executable, str(tmp_path / "program.py")], capture_output=True, text=True)

    assert done.stdout.splitlines() == [
        "3 lakehouse files kafka",
        "none avro Avro: fastavro is not installed; ... 'pystate-spark[avro]'",
        "none delta Delta tables: deltalake is not installed; ... 'pystate-spark[delta]'",
        "none http writing to HTTP: urllib3 is not installed; ... 'pystate-spark[http]'",
        "none iceberg Iceberg tables: pyiceberg is not installed; ... 'pystate-spark[iceberg]'",
        "none kafka confluent-kafka is not installed, jobs need pip install 'pystate-spark[kafka]'",
        "none mqtt MQTT: paho-mqtt is not installed; ... 'pystate-spark[mqtt]'",
        "none protobuf Protobuf: protobuf is not installed; ... 'pystate-spark[protobuf]'",
        "none redis Redis: redis-py is not installed; ... 'pystate-spark[redis]'",
        "none schema-registry schema registry: confluent_kafka is not installed; ... 'pystate-spark[schema-registry]'",
        "none sql databases: SQLAlchemy is not installed; ... 'pystate-spark[sql]', and your database's driver",
    ], done.stderr
