"""The fixtures of pystate for pytest, which finds them by the entry point `pystate`: docs/testing.md describes them.

Each session of pytest imports this module, so it imports what a fixture needs when that is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pystate.testing.harness import OperatorTestHarness
    from pystate.testing.harness_clock import HarnessClock
    from pystate.testing.kafka_broker import KafkaBroker
    from pystate.testing.mini_cluster import MiniCluster

    H = TypeVar("H", bound=OperatorTestHarness)
else:
    H = TypeVar("H")

_UPDATE = "--pystate-update-golden"
_KAFKA = "pystate_kafka_libs"


class HarnessOpener(Protocol):
    """What `pystate_harness` is."""

    def __call__(self, harness: H, savepoint: str | None = None, uid: str | None = None) -> H:
        """Open a harness, and close it after the test.

        Args:
            harness: The harness.
            savepoint: The directory of a savepoint to start from.
            uid: The operator's uid there.
        """
        raise NotImplementedError


class GoldenCheck(Protocol):
    """What `pystate_golden` is."""

    def __call__(self, harness: OperatorTestHarness, path: str | Path) -> None:
        """Replay a recorded run, and compare its results; with `--pystate-update-golden`, write them anew."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the plugin's options."""
    group = parser.getgroup("pystate")
    group.addoption(_UPDATE, action="store_true", help="write the results of golden runs anew, instead of comparing them")
    parser.addini(_KAFKA, "the folder with the jars of a Kafka for pystate_kafka (default: libs below $KAFKA_HOME)", "paths")


@pytest.fixture
def pystate_clock() -> HarnessClock:
    """The clock of the test's harnesses."""
    from pystate.testing.harness_clock import HarnessClock

    return HarnessClock()


@pytest.fixture
def pystate_harness(pystate_clock: HarnessClock) -> Iterator[HarnessOpener]:
    """Opens harnesses, and closes them after the test."""
    opened: list[OperatorTestHarness] = []

    def open_harness(harness: H, savepoint: str | None = None, uid: str | None = None) -> H:
        opened.append(harness)
        if (savepoint is None) != (uid is None):
            message = "A savepoint and the uid of an operator in it are given together."
            raise pytest.UsageError(message)
        if savepoint is not None and uid is not None:
            harness.initialize_state_from_savepoint(savepoint, uid)
        pystate_clock.drive(harness)
        harness.open()
        return harness

    yield open_harness
    for harness in opened:
        harness.close()


@pytest.fixture
def pystate_golden(request: pytest.FixtureRequest) -> GoldenCheck:
    """Compares what a harness makes of a recorded run with what was recorded."""
    from pystate.testing.golden_run import GoldenRun

    def check(harness: OperatorTestHarness, path: str | Path) -> None:
        run = GoldenRun.read(path)
        if request.config.getoption(_UPDATE, False):
            run.replay(harness).write(path)
        else:
            run.check(harness)

    return check


@pytest.fixture(scope="session")
def pystate_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The local Spark of all tests of the process. Define a fixture of this name to bring your own."""
    from pystate.testing.mini_cluster import local_spark

    session = local_spark(tmp_path_factory.mktemp("spark") / "spark.log")
    yield session
    session.stop()


@pytest.fixture
def pystate_cluster(pystate_spark: SparkSession, tmp_path: Path) -> Iterator[MiniCluster]:
    """Runs the jobs that the test starts, in its process."""
    from pystate.testing.mini_cluster import MiniCluster

    cluster = MiniCluster(pystate_spark, tmp_path / "pystate")
    yield cluster
    cluster.close()


@pytest.fixture(scope="session")
def pystate_kafka(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[KafkaBroker]:
    """A Kafka broker for all tests of the process; they are skipped where there is no Kafka."""
    from pystate.testing.kafka_broker import kafka_libraries, running_broker, why_no_broker

    libraries = kafka_libraries(pytestconfig.getini(_KAFKA))
    reason = why_no_broker(libraries)
    if libraries is None or reason is not None:
        pytest.skip(reason or "")
    with running_broker(tmp_path_factory.mktemp("kafka"), libraries) as broker:
        yield broker
