"""The Kafka broker of the tests, from the jars that `make servers` brings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from pystate.testing import kafka_broker
from pystate.testing.kafka_broker import KafkaBroker, why_no_broker
from tests.servers.places import SERVERS

JARS = SERVERS / "kafka"
SPARK_JARS = SERVERS / "spark-kafka"


def missing() -> str | None:
    """Say why there is no broker here; None where there is one."""
    if not (JARS / ".complete").is_file():
        return "there is no Kafka here: run `make servers`"
    return why_no_broker(JARS)


def spark_jars() -> list[str]:
    """Return the files of Spark's connector to Kafka; none where `make servers` has not brought them."""
    if not (SPARK_JARS / ".complete").is_file():
        return []
    return [str(path) for path in sorted(SPARK_JARS.glob("*.jar"))]


def running_broker(
    folder: Path, settings: Mapping[str, str] | None = None, passwords: Mapping[str, str] | None = None
) -> AbstractContextManager[KafkaBroker]:
    """Run a broker."""
    return kafka_broker.running_broker(folder, JARS, settings, passwords)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """One broker for all tests of a process; who kills it starts it again."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    with running_broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker
