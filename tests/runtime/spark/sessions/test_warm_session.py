"""A session that is there already is a job's only where nothing of it would be different."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.runtime.spark.sessions.warm_session import WarmSession, session_traits
from tests.waiting import LONGEST_S


@pytest.fixture
def jvm():
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE)  # it ends when its input does, as a JVM of PySpark's
    yield process
    process.kill()
    process.wait()


class AccumulatorServer:
    """Takes note of whether its JVM lived when it was shut down."""

    def __init__(self, jvm) -> None:
        self.jvm = jvm
        self.shut_down_with_jvm = False

    def shutdown(self) -> None:
        self.shut_down_with_jvm = self.jvm.poll() is None


def warm(jvm, **options: str) -> WarmSession:
    context = SimpleNamespace(_gateway=SimpleNamespace(proc=jvm), _accumulatorServer=AccumulatorServer(jvm))
    spark: Any = SimpleNamespace(sparkContext=context)
    return WarmSession(spark, session_traits(Configuration(options)))


def test_what_is_installed_meanwhile_makes_a_difference(jvm, tmp_path, monkeypatch):
    packages = tmp_path / "site-packages"
    packages.mkdir()
    monkeypatch.syspath_prepend(str(packages))
    made = warm(jvm)
    assert made.unlike(Configuration()) == []
    (packages / "arrow-2.dist-info").mkdir()
    assert made.unlike(Configuration()) == [f"the packages in {packages}"]


def test_the_same_options_make_the_same_session(jvm):
    assert warm(jvm).unlike(Configuration({"execution.checkpointing.interval": "1 s"})) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"parallelism.default": "3"},
            [
                "spark.master",
                "spark.sql.shuffle.partitions",
                "spark.sql.sources.parallelPartitionDiscovery.parallelism",
            ],
        ),
        ({"spark.driver.memory": "3g"}, ["spark.driver.memory"]),
        ({"pystate.spark.class-data-archive": "false"}, ["pystate.spark.class-data-archive"]),
        ({"python.executable": sys.executable}, []),
    ],
)
def test_what_would_be_different_is_named(jvm, options, said):
    assert warm(jvm).unlike(Configuration(options)) == said


def test_a_jar_or_a_file_of_settings_that_has_changed_makes_another_session(jvm, tmp_path, monkeypatch):
    jar, settings = tmp_path / "one.jar", tmp_path / "conf" / "spark-defaults.conf"
    settings.parent.mkdir()
    monkeypatch.setenv("SPARK_CONF_DIR", str(settings.parent))
    for file in (jar, settings):
        file.write_text("old")
    options = {"spark.jars": f"file://{jar},/nowhere.jar"}
    made = warm(jvm, **options)
    assert made.unlike(Configuration(options)) == []
    jar.write_text("newer")
    assert made.unlike(Configuration(options)) == [f"the file {jar}"]
    settings.unlink()
    assert made.unlike(Configuration(options)) == [f"the file {settings}", f"the file {jar}"]


def test_a_session_whose_jvm_has_ended_is_none(jvm):
    made = warm(jvm)
    jvm.kill()
    jvm.wait()
    assert made.unlike(Configuration()) == ["its JVM has ended"]


def test_its_end_is_that_of_the_jvm_after_the_listener_that_would_complain(jvm):
    made = warm(jvm)
    made.end()
    assert jvm.wait(LONGEST_S) == 0
    assert made.spark.sparkContext._accumulatorServer.shut_down_with_jvm  # type: ignore[attr-defined]
