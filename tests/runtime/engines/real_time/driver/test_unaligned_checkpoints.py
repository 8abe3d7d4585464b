"""Jobs whose barriers overtake records: what was in flight is in the checkpoint, and is replayed once."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import ConfigurationError
from pystate.common.job_status import JobStatus
from pystate.core.snapshot.handles.input_channel_state import ChannelStateRescaleError, InputChannelStateHandle
from pystate.core.snapshot.metadata_file import read_metadata
from pystate.runtime.checkpoint.settings.checkpoint_settings import CheckpointSettings
from pystate.runtime.driver.program.early_check import check_before_spark
from pystate.runtime.engines.real_time.slot.input.input_gate import InputGate
from pystate.runtime.engines.real_time.slot.input.input_settings import InputSettings
from pystate.runtime.engines.real_time.slot.input_checkpoints import restore_in_flight
from pystate.runtime.engines.real_time.slot.mailbox import TaskMailbox
from pystate.runtime.slot.snapshots.restored_operator import RestoredOperator
from tests.runtime.engines.real_time.driver.jobs import RealTimeJob, graph_of, printed_pairs
from tests.runtime.engines.real_time.driver.programs import CHANGE, changes, counts, one_slow_channel
from tests.runtime.engines.real_time.driver.test_real_time_jobs import check_counts
from tests.waiting import LONGEST_S, wait_until

UNALIGNED = {
    "execution.checkpointing.unaligned.enabled": "true",
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
}
FAST = 100_000
COUNT = 3000


@pytest.fixture
def job(tmp_path):
    made = []

    def make(name, program, **options):
        made.append(RealTimeJob(tmp_path / (name * 8), program, **{**UNALIGNED, **options}))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def gate(tmp_path):
    """The file until which records come so slowly that a job lasts minutes, however fast its checkpoints are."""
    return tmp_path / "gate"


def slow_counts(gate):
    return counts(COUNT, FAST, slow=0.05, slow_until=str(gate))


def newest(tmp_path, one):
    """Return the directory and the metadata of the newest checkpoint of a job that is there."""
    found = sorted(tmp_path.glob(f"ck/{one.job_id}/chk-*/_metadata"), key=lambda path: int(path.parent.name[4:]))
    for path in reversed(found):
        with contextlib.suppress(FileNotFoundError):  # a newer one is there meanwhile
            return str(path.parent), read_metadata(path.read_bytes(), str(path))
    return None, None


def in_flight(metadata):
    return {
        (operator.uid, index): state.input_channel_state.size
        for operator in metadata.operators
        for index, state in operator.subtasks.items()
        if state.input_channel_state is not None
    }


def await_data_in_flight(tmp_path, one):
    """Wait for a checkpoint with data in flight."""

    def is_there():
        _, metadata = newest(tmp_path, one)
        return metadata is not None and metadata.has_data_in_flight

    wait_until(is_there)


def checkpoint_with(one, *wanted):
    """Wait until a checkpoint, complete or not, has something of all that is wanted; return it with its operators."""
    found = []

    def is_there():
        history = one.coordinator.statistics()["history"]
        found[:] = [told["id"] for told in history if all(told[name] > 0 for name in wanted)]
        return bool(found)

    wait_until(is_there)
    return one.coordinator.statistics_of(found[0])


def test_what_barriers_overtook_is_told(job, gate):
    one = job("a", slow_counts(gate))
    told = checkpoint_with(one, "persisted_data")
    assert told["checkpoint_type"] == "UNALIGNED_CHECKPOINT"
    assert any(task["persisted_data"] > 0 for task in told["tasks"].values())


def test_what_is_held_back_while_the_barrier_of_another_channel_is_on_its_way_is_told(job):
    one = job("a", one_slow_channel(100_000, 2000, 0.2), **{"execution.checkpointing.unaligned.enabled": "false"})
    told = checkpoint_with(one, "alignment_buffered")
    assert (told["checkpoint_type"], told["persisted_data"]) == ("CHECKPOINT", 0)


@pytest.mark.parametrize("type_info", [CHANGE, None], ids=["declared", "undeclared"])
def test_rows_in_flight_keep_their_kinds_after_a_killed_slot(job, tmp_path, gate, capsys, type_info):
    one = job("a", changes(1000, str(gate), type_info))
    await_data_in_flight(tmp_path, one)
    one.kill_slot(1)
    one.await_attempt(1)
    gate.touch()
    assert one.end() is JobStatus.FINISHED
    found = re.findall(r"\((\d+),(\d)\)", capsys.readouterr().out)
    assert {(int(number), int(kind)) for number, kind in found} == {(number, number % 4) for number in range(1000)}


def test_records_in_flight_are_in_the_checkpoint_and_come_once_after_a_killed_slot(job, tmp_path, gate, capsys):
    one = job("a", slow_counts(gate))
    await_data_in_flight(tmp_path, one)
    one.kill_slot(1)
    one.await_attempt(1)
    one.await_checkpoints()
    one.kill_slot(0)
    one.await_attempt(2)
    gate.touch()
    assert one.end() is JobStatus.FINISHED
    check_counts(capsys.readouterr().out, COUNT)


def stopped_with_data_in_flight(job, tmp_path, gate, **options):
    """Cancel a job, and return the newest of its checkpoints, which are kept."""
    one = job("a", slow_counts(gate), **options)
    await_data_in_flight(tmp_path, one)
    one.master.cancel()
    one.thread.join(LONGEST_S)
    path, metadata = newest(tmp_path, one)
    assert in_flight(metadata), "it was as slow as before"
    return path


def test_a_checkpoint_with_records_in_flight_is_resumed_at_its_parallelism_and_nowhere_else(job, tmp_path, gate, capsys):
    path = stopped_with_data_in_flight(job, tmp_path, gate)
    restore = {"execution.state-recovery.path": path}
    other = job("b", counts(COUNT, FAST), parallelism=3, **restore)
    with pytest.raises(ChannelStateRescaleError, match="its parallelism was 2 and is 3") as refused:
        other.end()
    assert "start from it with -p 2; to rescale, take a savepoint" in refused.value.hint
    same = job("c", counts(COUNT, FAST), **restore)
    assert same.end() is JobStatus.FINISHED
    check_counts(capsys.readouterr().out, COUNT)


def test_only_the_sender_was_rescaled(tmp_path):
    """What came through other channels can't be told to those of today."""
    gate = InputGate((("s", 0), ("s", 1), ("s", 2)), TaskMailbox(), InputSettings())
    restored = RestoredOperator(str(tmp_path), in_flight=InputChannelStateHandle([("s", 0), ("s", 1)], []))
    with pytest.raises(ChannelStateRescaleError, match=r"it came from 2 subtasks of \['s'\], which are 3 of \['s'\]"):
        restore_in_flight(gate, restored, "t")


def test_the_other_engine_refuses_records_in_flight(job, tmp_path, gate):
    path = stopped_with_data_in_flight(job, tmp_path, gate)
    program, options = counts(COUNT), {"execution.engine": "micro-batch", "execution.state-recovery.path": path}
    with pytest.raises(ChannelStateRescaleError, match="the micro-batch engine has no channels"):
        check_before_spark(graph_of(program, options), Configuration(options), starts=True)


def test_savepoints_stay_aligned(job, tmp_path, gate, capsys):
    first = job("a", slow_counts(gate))
    await_data_in_flight(tmp_path, first)
    savepoint = first.master.savepoint(None, stop=True, cancel=False)
    gate.touch()  # its barriers are behind all that is in flight
    path = savepoint.result(LONGEST_S).path
    assert first.end() is JobStatus.FINISHED
    metadata = (Path(path.removeprefix("file:")) / "_metadata").read_bytes()
    assert not read_metadata(metadata, path).has_data_in_flight
    second = job("b", counts(COUNT, FAST), parallelism=3, **{"execution.state-recovery.path": path})
    assert second.end() is JobStatus.FINISHED
    pairs = printed_pairs(capsys.readouterr().out)
    assert len(pairs) == len(set(pairs)) == COUNT


def test_barriers_wait_for_the_aligned_checkpoint_timeout(job, tmp_path, gate, capsys):
    """Nothing is in flight that takes longer than it."""
    one = job("a", counts(6000, gate=str(gate)), **{"execution.checkpointing.aligned-checkpoint-timeout": "10 min"})
    one.await_checkpoints(3)
    _, metadata = newest(tmp_path, one)
    assert not metadata.has_data_in_flight
    gate.touch()
    assert one.end() is JobStatus.FINISHED
    check_counts(capsys.readouterr().out, 6000)


def test_barriers_overtake_after_the_aligned_checkpoint_timeout(job, tmp_path, gate, capsys):
    one = job("a", slow_counts(gate), **{"execution.checkpointing.aligned-checkpoint-timeout": "50 ms"})
    await_data_in_flight(tmp_path, one)
    one.kill_slot(0)
    one.await_attempt(1)
    gate.touch()
    assert one.end() is JobStatus.FINISHED
    check_counts(capsys.readouterr().out, COUNT)


def test_only_one_unaligned_checkpoint_at_a_time():
    settings = {**UNALIGNED, "execution.checkpointing.max-concurrent-checkpoints": "2"}
    with pytest.raises(ConfigurationError, match="can't be more than 1 with execution.checkpointing.unaligned.enabled"):
        CheckpointSettings.of(Configuration(settings), "a" * 32)
