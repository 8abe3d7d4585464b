"""A system outside is named in its connector, and nowhere else: all others know it by the interface."""

from __future__ import annotations

import re
from pathlib import Path

from pystate.connectors.installed_connectors import connectors

ROOT = Path(__file__).parents[2]
SYSTEM = re.compile(
    r"(?i)kafka|confluent|postgres|psycopg|mysql|mariadb|sqlalchemy|sqlite|jdbc|\bdelta\b|iceberg|\bredis\b|mqtt"
)
THEIRS = ("runtime/pystate/connectors/", "runtime/pystate/datastream/connectors/", "runtime/pystate/datastream/formats/")
OF_FLINK = {"runtime/pystate/table/catalog.py": {"Jdbc"}, "runtime/pystate/core/api/window/evictors.py": {"delta"}}
"""Names that PyFlink gives: a catalog, and the difference of two elements."""
FOR_TESTS = ("runtime/pystate/testing/kafka_broker.py", "runtime/pystate/pytest_plugin.py")
"""A broker that tests of the library's users run."""


def test_no_file_but_those_of_connectors_names_a_system():
    files = [path for root in ("runtime/pystate", "pystate_cli") for path in (ROOT / root).rglob("*.py")]
    named = {
        str(path.relative_to(ROOT)): names
        for path in files
        if not str(path.relative_to(ROOT)).startswith((*THEIRS, *FOR_TESTS))
        and (names := set(SYSTEM.findall(path.read_text("utf-8"))))
    }

    assert len(files) > 900
    assert {path: names for path, names in named.items() if not names <= OF_FLINK.get(path, set())} == {}


def test_each_connector_owns_its_folder():
    folders = {type(one).__module__.split(".")[2]: name for name, one in connectors().items()}

    assert folders == {
        "avro": "avro",
        "delta": "delta",
        "file_system": "files",
        "http": "http",
        "iceberg": "iceberg",
        "kafka": "kafka",
        "mqtt": "mqtt",
        "protobuf": "protobuf",
        "redis": "redis",
        "schema_registry": "schema-registry",
        "sql": "sql",
    }
