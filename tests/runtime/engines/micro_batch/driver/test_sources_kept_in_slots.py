"""Sources that a snapshot has as state of slots stay in slots, also when it is gone."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pystate.common import Types
from pystate.common.configuration.configuration import Configuration
from pystate.common.files.home import JobDirectory
from pystate.core.api.stream_graph import StreamGraph
from pystate.core.api.transformations import OwnSourceTransformation, SourceTransformation
from pystate.runtime.engines.micro_batch.driver import sources_kept_in_slots
from pystate.runtime.engines.micro_batch.driver.sources_kept_in_slots import SourcesKeptInSlots
from pystate.runtime.execution.sources_in_slots import sources_in_slots


def job_of(folder, path):
    folder.mkdir(exist_ok=True)
    options = {} if path is None else {"execution.state-recovery.path": path}
    term = SimpleNamespace(check=lambda: None)
    return SimpleNamespace(configuration=Configuration(options), directory=JobDirectory(folder), term=term)


@pytest.fixture
def loaded(monkeypatch):
    paths = []

    def load(path):
        paths.append(path)
        states = {"files": True, "count": True, "stateless": False}
        operators = [SimpleNamespace(uid=uid, has_state=has) for uid, has in states.items()]
        return SimpleNamespace(metadata=SimpleNamespace(operators=operators))

    monkeypatch.setattr(sources_kept_in_slots, "load_snapshot", load)
    return paths


def test_the_snapshot_is_asked_once(tmp_path, loaded):
    assert SourcesKeptInSlots(job_of(tmp_path / "job", "one")).uids() == {"files", "count"}
    assert SourcesKeptInSlots(job_of(tmp_path / "job", "one")).uids() == {"files", "count"}
    assert loaded == ["one"]
    assert SourcesKeptInSlots(job_of(tmp_path / "job", "two")).uids() == {"files", "count"}
    assert loaded == ["one", "two"]


def test_a_job_from_nothing_has_none(tmp_path, loaded):
    assert SourcesKeptInSlots(job_of(tmp_path / "job", None)).uids() == set()
    assert loaded == []


def test_only_the_sources_that_are_wanted_are_read_in_slots():
    one, two = (
        SourceTransformation(name=name, collection=["a"], bounded=True, output_type=Types.STRING(), uid=name)
        for name in ("one", "two")
    )
    graph, uids = StreamGraph([one, two], []), {id(one): "one", id(two): "two"}
    assert sources_in_slots(graph, uids, None, {"two", "count"}.__contains__) == ["two"]
    assert graph.sources[0] is one
    own = graph.sources[1]
    assert isinstance(own, OwnSourceTransformation)
    assert uids[id(own)] == "two"


def test_a_snapshot_that_is_gone_asks_for_none(tmp_path):
    assert SourcesKeptInSlots(job_of(tmp_path / "job", str(tmp_path / "deleted since"))).uids() == set()
    assert not (tmp_path / "job" / "sources-in-slots.json").exists()
