"""Checks for jobs that read or write Kafka."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from pystate.common.distribution import pip_install
from pystate.connectors.finding import Finding, missing, ok, warn

if TYPE_CHECKING:
    from pystate.common.configuration.configuration import Configuration

_ARTIFACT = "spark-sql-kafka-0-10_2.13"
_NEEDS = {"spark-token-provider-kafka-0-10": "spark-token-provider-kafka", "kafka-clients": "kafka-clients"}


def check_kafka(configuration: Configuration) -> Finding:
    """Check that the settings name a fitting version of Spark's connector, and that the client is installed."""
    has_client = importlib.util.find_spec("confluent_kafka") is not None
    client = "is installed" if has_client else f"is not installed, jobs need {pip_install('kafka')}"
    client = f"writing: confluent-kafka {client}"
    spark = importlib.util.find_spec("pyspark")
    if spark is None:
        return (ok if has_client else missing)("kafka", f"no Spark, so nothing to read with; {client}")
    from pyspark import __version__ as version

    package = f"org.apache.spark:{_ARTIFACT}:{version}"
    named = [part for part in _names(configuration, "spark.jars.packages") if _ARTIFACT in part]
    files = [part for part in _names(configuration, "spark.jars") if _ARTIFACT in part]
    if not named and not files:
        return (ok if has_client else missing)("kafka", f"reading: jobs need -Dspark.jars.packages={package}; {client}")
    found = (named or files)[0]
    other = found.removesuffix(".jar").rpartition(":" if named else "-")[2]
    if other.split(".")[:2] != version.split(".")[:2]:
        text = f"the connector is for Spark {other}, and {version} is installed; {client}"
        return warn("kafka", text, f"spark.jars.packages = {package}, once the registry has it")
    if files and not named:
        jars = _names(configuration, "spark.jars")
        lacking = [name for name, part in _NEEDS.items() if not any(part in jar for jar in jars)]
        if lacking:
            return warn(
                "kafka", f"spark.jars has the connector without {' and '.join(lacking)}; {client}", "see docs/kafka.md"
            )
    return ok("kafka", f"reading: {found}; {client}")


def _names(configuration: Configuration, key: str) -> list[str]:
    return [part.strip() for part in str(configuration.get_string(key, "")).split(",") if part.strip()]
