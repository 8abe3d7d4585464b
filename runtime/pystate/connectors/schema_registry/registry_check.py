"""Checks for jobs that ask a schema registry."""

from __future__ import annotations

from importlib.metadata import version

from pystate.common.distribution import pip_install
from pystate.connectors.client_package import is_there
from pystate.connectors.finding import Finding, missing, ok

_PACKAGES = ("confluent_kafka", "authlib", "cachetools", "fastavro", "google.protobuf", "jsonschema")
"""What the client and its serializers import, some of it when they are used."""


def check_registry() -> Finding:
    """Return whether the client of a schema registry, and what its serializers need, is installed."""
    lacking = next((name for name in _PACKAGES if not is_there(name)), None)
    if lacking is None:
        return ok("schema-registry", f"schema registry: confluent-kafka {version('confluent-kafka')} with its serializers")
    text = f"schema registry: {lacking} is not installed; jobs that use them need {pip_install('schema-registry')}"
    return missing("schema-registry", text)
