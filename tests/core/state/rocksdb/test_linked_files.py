"""Hard links that are made after the barrier: they show its moment, and nobody waits for them but who writes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pystate.common.errors import SnapshotError, StateError
from pystate.core.api.state import ValueStateDescriptor
from pystate.core.state.rocksdb.database import Database
from pystate.core.state.rocksdb.linked_files import LinkedFiles
from pystate.core.state.rocksdb.rocksdb_keyed_state_backend import RocksDBKeyedStateBackend
from tests.core.state.rocksdb.native import VALUE, Operator
from tests.core.state.rocksdb.test_spill import NUMBER, Spilling
from tests.waiting import LONGEST_S


class Held:
    """Links that are made once somebody waits for them, or the test says so.

    Attributes:
        made: How many were made.
        error: What RocksDB says instead of making them.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.made = 0
        self.error: Exception | None = None
        self.go = threading.Event()
        link, wait = Database.link_files, LinkedFiles.wait

        def held_link(database: Database, directory: str) -> None:
            assert self.go.wait(LONGEST_S)
            if self.error is not None:
                os.mkdir(directory)  # half of it is there
                raise self.error
            link(database, directory)
            self.made += 1

        def waiting(links: LinkedFiles) -> None:
            self.go.set()
            wait(links)

        patch.setattr(Database, "link_files", held_link)
        patch.setattr(LinkedFiles, "wait", waiting)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    return Held(monkeypatch)


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Operator]:
    operator = Operator(str(tmp_path))
    operator.write({"a": 1, "b": 1})
    yield operator
    operator.close()


def folders(operator: Operator) -> list[str]:
    return [name for name in os.listdir(operator.folder) if name.startswith("native-")]


def later(operator: Operator, upload: Callable[[], Any]) -> dict[Any, Any]:
    """Write a snapshot, and return what a new backend has of it."""
    restored = Operator(operator.root, 1, upload())
    try:
        return restored.values(["a", "b", "c"])
    finally:
        restored.close()


def test_records_go_on_and_only_what_they_write_waits(operator: Operator, held: Held) -> None:
    upload = operator.freeze(1)
    assert operator.use("a", VALUE).value() == 1
    operator.use("a", VALUE).update(2)
    operator.use("c", VALUE).update(2)
    assert operator.use("a", VALUE).value() == 2
    assert held.made == 0
    assert not held.go.is_set(), "nobody has waited so far"
    operator.flush()
    assert held.made == 1
    assert operator.values(["a", "b", "c"]) == {"a": 2, "b": 1, "c": 2}
    assert later(operator, upload) == {"a": 1, "b": 1}
    assert folders(operator) == []


def test_an_epoch_that_writes_nothing_does_not_wait(operator: Operator, held: Held) -> None:
    upload = operator.freeze(1)
    assert operator.use("a", VALUE).value() == 1
    operator.flush()
    operator.use("a", VALUE).update(3)
    operator.backends[0].rollback_epoch()
    assert not held.go.is_set()
    assert later(operator, upload) == {"a": 1, "b": 1}


def test_a_savepoint_right_after_a_checkpoint_has_the_same_moment(operator: Operator, held: Held) -> None:
    first, second = operator.freeze(1), operator.freeze(2)
    assert held.made == 0
    operator.write({"a": 2})
    assert held.made == 2
    third = operator.freeze(3)
    operator.write({"a": 3})
    assert later(operator, third) == {"a": 2, "b": 1}
    assert later(operator, second) == {"a": 1, "b": 1}
    assert later(operator, first) == {"a": 1, "b": 1}


def test_a_state_that_is_declared_meanwhile_is_not_in_it(operator: Operator, held: Held) -> None:
    upload = operator.freeze(1)
    operator.use("a", ValueStateDescriptor("another")).update(1)
    assert held.made == 1
    operator.flush()
    restored = Operator(operator.root, 1, upload())
    assert restored.backends[0].state_names() == ["value"]
    restored.close()


def test_files_that_cannot_be_linked_fail_the_snapshot_and_nothing_else(operator: Operator, held: Held) -> None:
    held.error = StateError("No space left on device")
    upload = operator.freeze(1)
    operator.write({"a": 2})
    with pytest.raises(StateError, match="No space left"):
        upload()
    assert folders(operator) == []
    assert os.listdir(os.path.join(operator.root, "shared")) == []
    operator.ended(1, completed=False)
    held.error = None
    assert later(operator, operator.freeze(2)) == {"a": 2, "b": 1}


def test_one_that_is_given_up_meanwhile_leaves_nothing(operator: Operator, held: Held) -> None:
    snapshot = operator.backends[0].snapshot_native()
    snapshot.release()
    operator.write({"a": 2})
    assert held.made == 1
    assert folders(operator) == []
    with pytest.raises(SnapshotError, match="released before it was written"):
        _ = snapshot.shared_files
    snapshot.release()
    assert operator.values(["a"]) == {"a": 2}


def test_a_backend_that_is_closed_meanwhile_leaves_no_thread_and_no_file_but_the_links(
    operator: Operator, held: Held
) -> None:
    upload = operator.freeze(1)
    operator.backends[0].close()
    assert held.made == 1
    assert not [thread for thread in threading.enumerate() if thread.name == "rocksdb-links"]
    assert os.listdir(operator.folder) == folders(operator)
    assert later(operator, upload) == {"a": 1, "b": 1}
    assert os.listdir(operator.folder) == []


def test_a_thread_that_cannot_be_started_leaves_the_backend_whole(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        message = "can't start new thread"
        raise RuntimeError(message)

    with monkeypatch.context() as patch, pytest.raises(RuntimeError):
        patch.setattr(threading.Thread, "start", refuse)
        operator.freeze(1)
    operator.write({"a": 2})
    assert later(operator, operator.freeze(2)) == {"a": 2, "b": 1}


def test_an_epoch_larger_than_memory_goes_to_disk_meanwhile_and_waits_at_its_end(tmp_path: Path, held: Held) -> None:
    spilling = Spilling(tmp_path)
    backend: RocksDBKeyedStateBackend = spilling.backend
    spilling.write("a", 1)
    backend.flush_epoch()
    snapshots = [backend.snapshot_native()]
    for number in (2, 3):
        spilling.write("a", number)
        spilling.spill()
    assert backend.has_spilled
    assert spilling.read("a")[0] == 3
    backend.rollback_epoch()
    assert held.made == 0
    assert not held.go.is_set()
    spilling.write("a", 4)
    spilling.spill()
    backend.flush_epoch()
    assert held.made == 1
    snapshots.append(backend.snapshot_native())
    assert spilling.use("a", NUMBER).value() == 4
    backend.rollback_epoch()
    for snapshot in snapshots:
        snapshot.release()
    backend.close()
    assert os.listdir(tmp_path) == []
