"""Checks for jobs that ask a schema registry."""

from __future__ import annotations

import importlib
from importlib.metadata import version

from pystate.common.distribution import pip_install
from pystate.connectors.finding import Finding, missing, ok

_MODULES = ("avro", "json_schema", "protobuf")


def check_registry() -> Finding:
    """Return whether the client of a schema registry, and its serializers, can be imported."""
    for name in ("", *(f".{module}" for module in _MODULES)):
        try:
            importlib.import_module(f"confluent_kafka.schema_registry{name}")
        except ImportError:
            what = f"schema registry: its client is not installed; jobs that use them need {pip_install('schema-registry')}"
            return missing("schema-registry", what)
    return ok("schema-registry", f"schema registry: confluent-kafka {version('confluent-kafka')} with its serializers")
