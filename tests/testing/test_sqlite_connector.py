"""The example of a connector in a distribution of its own: its sink, its check, its template, its option."""

from __future__ import annotations

import importlib
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
import tomli

from pystate.common.configuration.configuration import Configuration
from pystate.connectors.connector import Connector
from pystate.connectors.finding import Health
from pystate.testing import OperatorTestHarness, SinkTestHarness

FOLDER = Path(__file__).parents[2] / "examples" / "sqlite_connector"
STEPS = ("write", "snapshot", "complete", "commit")


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "pystate_sqlite"]:
        del sys.modules[name]


@pytest.fixture
def file(tmp_path):
    with closing(sqlite3.connect(tmp_path / "words.db")) as database:
        database.execute("CREATE TABLE words (word TEXT, count INTEGER)")
    return tmp_path / "words.db"


def opened(file, snapshot=None, **options):
    sink = importlib.import_module("pystate_sqlite").SqliteSink(file, "INSERT INTO words VALUES (?, ?)")
    harness = SinkTestHarness(sink, **options)
    if snapshot is not None:
        harness.initialize_state(snapshot)
    harness.open()
    return harness


def words(file):
    with closing(sqlite3.connect(file)) as database:
        return [word for (word,) in database.execute("SELECT word FROM words ORDER BY count")]


@pytest.mark.parametrize("crash", STEPS)
def test_a_crash_after_any_step_loses_and_doubles_nothing(file, crash):
    reached = STEPS.index(crash)
    with opened(file) as harness:
        harness.process_element(("first", 1))
        kept, unread = harness.snapshot(1), [("second", 2)]
        harness.notify_of_completed_checkpoint(1)
        harness.process_element(("second", 2))
        if reached >= STEPS.index("snapshot"):
            snapshot = harness.snapshot(2)
        if reached >= STEPS.index("complete"):
            kept, unread = snapshot, []
        if crash == "commit":
            harness.notify_of_completed_checkpoint(2)
        assert words(file) == (["first", "second"] if crash == "commit" else ["first"])
    with opened(file, kept) as harness:  # the source gives again what the checkpoint doesn't hold
        harness.process_elements([*unread, ("third", 3)])
        harness.snapshot(3)
        harness.notify_of_completed_checkpoint(3)
    assert words(file) == ["first", "second", "third"]


def test_what_waits_for_its_commit_survives_another_parallelism(file):
    snapshots = []
    for index in range(2):
        with opened(file, parallelism=2, subtask_index=index) as harness:
            harness.process_element((f"of {index}", index))
            snapshots.append(harness.snapshot(1))
    assert words(file) == []
    for index, share in enumerate(OperatorTestHarness.repartition(snapshots, 2, 3, 128)):
        opened(file, share, parallelism=3, subtask_index=index).close()
    assert words(file) == ["of 0", "of 1"]


def test_a_row_that_is_refused_takes_the_whole_commit_back(file):
    with opened(file) as harness:
        harness.process_elements([("first", 1), ("no column for this", 2, 3)])
        harness.snapshot(1)
        with pytest.raises(Exception, match="3 supplied"):
            harness.notify_of_completed_checkpoint(1)
    assert words(file) == []


def test_its_entry_points_name_a_connector_and_its_options():
    points = tomli.loads((FOLDER / "pyproject.toml").read_text())["project"]["entry-points"]
    made = {group: {name: load(value) for name, value in named.items()} for group, named in points.items()}
    connector = made["pystate.connectors"]["sqlite"]()

    assert isinstance(connector, Connector)
    assert [finding.health for finding in connector.check(Configuration())] == [Health.OK]
    assert list(connector.templates()) == ["sqlite"]
    assert made["pystate.options"]["sqlite"].BUSY_TIMEOUT.key == "sqlite.busy-timeout"


def load(value):
    module, _, name = value.partition(":")
    return getattr(importlib.import_module(module), name)
