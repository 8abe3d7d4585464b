"""State backend and checkpoint storage as the options come to: defaults, Flink's old names, contradictions."""

from __future__ import annotations

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.state_settings import StateSettings
from pystate.common.errors import ConfigurationError

DIRECTORY = {"execution.checkpointing.dir": "/c"}
INTERVAL = {"execution.checkpointing.interval": "10 s"}


def of(options: dict[str, str]) -> StateSettings:
    return StateSettings.of(Configuration(options))


@pytest.mark.parametrize(
    ("options", "backend", "storage"),
    [
        ({}, "hashmap", "jobmanager"),  # Flink's rule: files where a directory is set, else memory
        (DIRECTORY, "hashmap", "filesystem"),
        ({"execution.checkpointing.dir": ""}, "hashmap", "jobmanager"),
        ({"execution.checkpointing.storage": "jobmanager", **DIRECTORY}, "hashmap", "jobmanager"),
        ({"execution.checkpointing.storage": "filesystem", **DIRECTORY}, "hashmap", "filesystem"),
        ({"state.backend.type": "rocksdb", **DIRECTORY}, "rocksdb", "filesystem"),
        ({"state.backend.type": "a.b:C"}, "a.b:C", "jobmanager"),
        ({"state.backend.type": "memory"}, "hashmap", "jobmanager"),
        ({"state.backend.type": "memory", **DIRECTORY}, "hashmap", "jobmanager"),
        ({"state.backend.type": "jobmanager", **DIRECTORY}, "hashmap", "jobmanager"),
        ({"state.backend.type": "filesystem", **DIRECTORY}, "hashmap", "filesystem"),
        (
            {"state.backend.type": "filesystem", "execution.checkpointing.storage": "filesystem", **DIRECTORY},
            "hashmap",
            "filesystem",
        ),
    ],
)
def test_backend_and_storage(options: dict[str, str], backend: str, storage: str) -> None:
    found = of(options)
    assert (found.backend, found.storage.value) == (backend, storage)


@pytest.mark.parametrize(
    ("name", "means"), [("memory", "jobmanager"), ("jobmanager", "jobmanager"), ("filesystem", "filesystem")]
)
def test_an_old_name_is_answered_with_what_it_means_today(name: str, means: str) -> None:
    (notice,) = of({"state.backend.type": name, **DIRECTORY, **INTERVAL}).notices
    assert f"state.backend.type = {name} is Flink's old name" in notice
    assert f"state.backend.type = hashmap with execution.checkpointing.storage = {means}" in notice


def test_checkpoints_in_memory_alone_are_announced_with_where_a_dead_drivers_job_begins() -> None:
    (notice,) = of(INTERVAL).notices
    assert "memory of the job's driver" in notice
    assert notice.endswith("the job begins from nothing")
    (notice,) = of({**INTERVAL, "execution.state-recovery.path": "/s"}).notices
    assert notice.endswith("begins at the savepoint it was started from, /s")
    # on the storage too, in files, or never taken
    for options in ({"execution.checkpointing.storage": "jobmanager", **DIRECTORY, **INTERVAL}, DIRECTORY | INTERVAL, {}):
        assert of(options).notices == []


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        (
            {"state.backend.type": "memory", "execution.checkpointing.storage": "filesystem", **DIRECTORY},
            "state.backend.type = memory means .* = jobmanager, but execution.checkpointing.storage is filesystem",
            "set state.backend.type to hashmap",
        ),
        (
            {"state.backend.type": "filesystem", "execution.checkpointing.storage": "jobmanager", **DIRECTORY},
            "but execution.checkpointing.storage is jobmanager",
            "set state.backend.type to hashmap",
        ),
        ({"state.backend.type": "filesystem"}, "execution.checkpointing.dir is not set", "execution.checkpointing.dir=DIR"),
        (
            {"execution.checkpointing.storage": "filesystem"},
            "execution.checkpointing.dir is not set",
            "execution.checkpointing.dir=DIR",
        ),
        (
            {"state.backend.type": "rocksdb", "state.backend.async": "false"},
            "rocksdb state backend only supports asynchronous snapshots",
            "leave state.backend.async out",
        ),
    ],
)
def test_contradictions_are_refused(options: dict[str, str], message: str, hint: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as error:
        of(options)
    assert hint in str(error.value.hint)


def test_snapshots_of_the_heap_can_be_synchronous() -> None:
    assert of({}).asynchronous
    assert not of({"state.backend.async": "false"}).asynchronous
    assert not of({"state.backend.async": "false", "state.backend.type": "a.b:C"}).asynchronous


@pytest.mark.parametrize("size", ["11 mb", "10485761"])
def test_a_state_above_the_frame_is_refused(size: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        Configuration({"pystate.checkpoint.jobmanager.max-state-size": size})
    assert "at most 10 mb" in str(error.value.hint)
