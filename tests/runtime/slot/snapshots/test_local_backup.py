"""Local copies through a task of a slot: a restore on the same machine, with both kinds of snapshots."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from pystate.common import Types
from pystate.common.configuration.configuration import Configuration
from pystate.core.api.functions import KeyedProcessFunction
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.state import ValueStateDescriptor
from pystate.core.file_systems.file_stores import LocalStore
from pystate.core.records.key_column import KeyColumn
from pystate.core.snapshot.operator_state import OperatorSubtaskState
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.plan.chain import Chain, OperatorSpec
from pystate.runtime.plan.task import JobEnvironment, TaskInput, TaskSpec
from pystate.runtime.slot.chain.operator_chain import OperatorChain
from pystate.runtime.slot.snapshots.local_backup import local_roots
from pystate.runtime.slot.snapshots.restored_operator import RestoredOperator
from tests.waiting import LONGEST_S

UID, VALUE = "count", ValueStateDescriptor("value", Types.STRING())
KEYS = [f"key-{number}" for number in range(300)]


class Nothing(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield value


class Machine:
    """A machine with the folder of an attempt, local copies, and a storage that all machines see."""

    def __init__(self, root: Path, backend: str, name: str = "machine") -> None:
        self.root, self.backend, self.name = root, backend, name
        self.storage = SnapshotLocation(str(root / "storage"))
        self.shared = SnapshotLocation(str(root / "shared"))
        self.local = root / name / "local"
        for folder in ("storage", "shared"):
            (root / folder).mkdir(exist_ok=True)

    def task(
        self, attempt: int, restored: RestoredOperator | None = None, checkpoint_id: int | None = None
    ) -> OperatorChain:
        folder = self.root / self.name / str(attempt)
        folder.mkdir(parents=True)
        options = {
            "execution.checkpointing.local-backup.enabled": "true",
            "execution.checkpointing.local-backup.dirs": f" {self.local} ,",
        }
        environment = JobEnvironment("a" * 32, "job", attempt, options, self.backend, 1 << 20, str(folder))
        head = OperatorSpec(UID, "count", OperatorKind.PROCESS, Nothing())
        inputs = [TaskInput(Types.STRING(), KeyColumn("value", Types.STRING()))]
        spec = TaskSpec(UID, "count", "c" * 32, 1, 16, inputs, head, Chain())
        task = OperatorChain(spec, 0, environment, lambda *_: None)
        task.open(None if restored is None else {UID: restored}, checkpoint_id)
        return task

    def barrier(self, number: int, told: Sequence[int] = ()) -> CheckpointBarrier:
        shared = self.shared.uri if self.backend == "rocksdb" else None
        return CheckpointBarrier(number, self.storage.uri, 100, 0, shared=shared, shared_prefix=f"{number}-", completed=told)

    def checkpoint(self, task: OperatorChain, number: int) -> RestoredOperator:
        told = range(1, number)
        frozen = task.on_barrier(self.barrier(number, told))
        assert task.copies is not None
        try:
            written = frozen.write(task.copies.writing(self.storage, number), 0, 100).operators[UID]
        finally:
            frozen.release()
        task.checkpoint_ended(number, completed=True)
        return restored(written, self.storage)

    def copies(self) -> set[str]:
        return {path.parent.name for path in self.local.rglob("*") if path.is_file()}


def restored(written: OperatorSubtaskState, storage: SnapshotLocation) -> RestoredOperator:
    return RestoredOperator(storage.uri, written.keyed_state, owned=True)


def write(task: OperatorChain, value: str) -> None:
    backend = task.backend
    assert backend is not None
    for key in KEYS:
        backend.set_current_key(key, backend.key_codec.key_group(key, 16))
        backend.get_partitioned_state(VALUE).update(f"{key} {value}")
    backend.flush_epoch()


def values(task: OperatorChain) -> set[str]:
    backend, found = task.backend, set()
    assert backend is not None
    for key in KEYS:
        backend.set_current_key(key, backend.key_codec.key_group(key, 16))
        found.add(backend.get_partitioned_state(VALUE).value().removeprefix(f"{key} "))
    return found


@pytest.fixture(params=["hashmap", "rocksdb"])
def machine(request, tmp_path):
    return Machine(tmp_path, request.param)


def test_a_restore_on_the_same_machine_reads_nothing_of_a_storage_that_hangs(machine, monkeypatch, capsys):
    task = machine.task(0)
    write(task, "one")
    machine.checkpoint(task, 1)
    write(task, "two")
    handles = machine.checkpoint(task, 2)
    task.close()
    assert machine.copies() == {"chk-2"}, "copies of the checkpoint before are gone"
    opened, over, gone_on = LocalStore.open, threading.Event(), []

    def hang(self, path):
        if f"{machine.root}/s" in str(path):
            gone_on.append(over.wait(LONGEST_S))
        return opened(self, path)

    monkeypatch.setattr(LocalStore, "open", hang)
    again = machine.task(1, handles, 2)
    assert values(again) == {"two"}
    assert gone_on == [], "it has waited for no file of the storage"
    over.set()
    assert "files came from copies on this machine" in capsys.readouterr().err
    monkeypatch.undo()
    write(again, "three")
    assert values(machine.task(2, machine.checkpoint(again, 3), 3)) == {"three"}


def test_damaged_copies_and_another_machine_read_the_storage(machine, capsys):
    task = machine.task(0)
    write(task, "one")
    handles = machine.checkpoint(task, 1)
    task.close()
    for path in machine.local.rglob("*"):
        if path.is_file():
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 1
            path.unlink()  # a copy may be a link to the file that the last attempt had
            path.write_bytes(data)
    assert values(machine.task(1, handles, 1)) == {"one"}
    said = capsys.readouterr().err
    assert "a local copy of state is passed over" in said
    assert ": checkpoint 1 is restored, 0 of" in said
    elsewhere = Machine(machine.root, machine.backend, "another")
    assert values(elsewhere.task(0, handles, 1)) == {"one"}
    assert not elsewhere.local.exists()


def test_what_an_earlier_attempt_left_of_other_checkpoints_goes(machine):
    task = machine.task(0)
    write(task, "one")
    handles = machine.checkpoint(task, 1)
    write(task, "two")
    frozen = task.on_barrier(machine.barrier(2))
    frozen.write(task.copies.writing(machine.storage, 2), 0, 100)
    task.close()
    assert machine.copies() == {"chk-1", "chk-2"}
    assert values(machine.task(1, handles, 1)) == {"one"}
    assert machine.copies() == {"chk-1"}
    shutil.rmtree(machine.local)
    assert values(machine.task(2, handles, 1)) == {"one"}


def test_folders_are_read_from_the_option_and_no_option_is_that_of_temporary_files():
    key = "execution.checkpointing.local-backup.dirs"
    assert local_roots(Configuration({})) == []
    assert local_roots(Configuration({key: "/a, /b/c ,"})) == ["/a", "/b/c"]
