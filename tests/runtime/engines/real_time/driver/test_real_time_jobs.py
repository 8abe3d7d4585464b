"""Jobs on the real-time engine, with everything but Spark: checkpoints, failures, savepoints, other parallelisms."""

from __future__ import annotations

import threading
from collections import Counter

import pytest
from pyspark import cloudpickle

from pystate.common.errors import PystateError
from pystate.common.job_status import JobStatus
from pystate.runtime.engines.real_time.driver import real_time_engine
from pystate.runtime.execution import execution_attempt
from pystate.runtime.execution.execution_attempt import ExecutionAttempt
from pystate.runtime.job_folder.failing_record import StepKind, kept_failing_records, read_failing_record
from tests.runtime.engines.real_time.driver.jobs import RealTimeJob, Relays, printed_pairs
from tests.runtime.engines.real_time.driver.programs import (
    KEYS,
    alarms,
    always_fails,
    counts,
    divides,
    divides_long_ones,
    false_alarms,
)
from tests.waiting import LONGEST_S


@pytest.fixture
def job(tmp_path):
    made = []

    def make(name, program, **options):
        made.append(RealTimeJob(tmp_path / (name * 8), program, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def check_counts(text, total):
    """Every count of every key was given out, up to the right one; after a failure some twice."""
    pairs = set(printed_pairs(text))
    expected = Counter(number % KEYS for number in range(total))
    assert pairs == {(key, count) for key, most in expected.items() for count in range(1, most + 1)}


def test_elements_go_through_two_shuffles_in_order_and_the_job_ends_at_them(job, capsys):
    one = job("a", counts(3000, 100_000))
    assert one.end() is JobStatus.FINISHED
    text = capsys.readouterr().out
    check_counts(text, 3000)
    assert len(printed_pairs(text)) == 3000
    assert one.completed() >= 1, "the last one, after all elements"


@pytest.mark.parametrize(
    "options", [{}, {"execution.checkpointing.unaligned.enabled": "true"}], ids=["aligned", "unaligned"]
)
def test_slots_of_one_machine_send_each_other_their_frames_and_a_killed_one_is_what_is_told(job, tmp_path, capsys, options):
    gate = tmp_path / "gate"
    one = job("a", counts(6000, gate=str(gate)), relays=Relays(directly=True), **options)
    one.await_checkpoints()
    one.kill_slot(1)
    one.await_attempt(1)
    one.await_checkpoints()
    gate.touch()
    assert one.end() is JobStatus.FINISHED
    check_counts(capsys.readouterr().out, 6000)
    assert [relays.carried for relays in one.relays.made] == [0, 0]
    (failure,) = one.status.snapshot()["failures"]
    assert "slot 1" in str(failure).lower(), failure


def test_a_lost_slot_is_what_is_told_though_its_relay_is_seen_to_fail_first(job, tmp_path, capsys, monkeypatch):
    gate, failed = tmp_path / "gate", threading.Event()
    engine_failed, slot_lost = ExecutionAttempt.engine_failed, ExecutionAttempt.slot_lost

    def fail(attempt, error, stack_trace):
        failed.set()
        engine_failed(attempt, error, stack_trace)

    def lose(attempt, slot, reason):
        assert failed.wait(LONGEST_S)
        slot_lost(attempt, slot, reason)

    monkeypatch.setattr(ExecutionAttempt, "engine_failed", fail)
    monkeypatch.setattr(ExecutionAttempt, "slot_lost", lose)
    monkeypatch.setattr(execution_attempt, "_CAUSE_S", LONGEST_S)
    one = job("a", counts(600, gate=str(gate)))
    one.await_checkpoints()
    one.kill_slot(1)
    one.await_attempt(1)
    gate.touch()
    assert one.end() is JobStatus.FINISHED
    check_counts(capsys.readouterr().out, 600)
    (failure,) = one.status.snapshot()["failures"]
    assert "slot 1" in failure["message"].lower()


def test_many_channels_are_left_to_relays(job, capsys, monkeypatch):
    monkeypatch.setattr(real_time_engine, "_MOST_DIRECT_CHANNELS", 7)  # two shuffles at parallelism 2 have eight
    one = job("a", counts(600), relays=Relays(directly=True))
    assert one.end() is JobStatus.FINISHED
    check_counts(capsys.readouterr().out, 600)
    assert one.relays.made[0].carried > 0


def test_a_function_that_fails_goes_back_to_a_checkpoint(job, tmp_path, capsys):
    mark, gate = tmp_path / "mark", tmp_path / "gate"
    one = job("a", counts(9000, mark=str(mark), gate=str(gate)))
    one.await_checkpoints()
    mark.touch()
    gate.touch()
    one.await_attempt(1)
    assert one.end() is JobStatus.FINISHED
    assert len(one.relays.made) == 2
    assert one.coordinator.statistics()["counts"]["restored"] == 1
    check_counts(capsys.readouterr().out, 9000)


@pytest.mark.parametrize("kept", ["2", None])
def test_the_records_at_which_it_fails_are_kept_where_that_is_asked_for(job, tmp_path, kept):
    options = {"pystate.debug.keep-failing-records": kept, "restart-strategy.fixed-delay.attempts": "2"}
    one = job("a", divides, **options)
    with pytest.raises(PystateError, match="ZeroDivisionError"):
        one.end()

    files = kept_failing_records(tmp_path / "aaaaaaaa")
    said = [line for line in one.said if "pystate debug" in line]
    if kept is None:
        assert (files, said) == ({}, [])
        return
    assert sorted(files) == [2, 3], "the latest two of three attempts"
    assert said[-1] == f"The record at which the job failed is kept: pystate debug {one.job_id} 3"
    record = read_failing_record(files[3])
    assert (record.uid, record.attempt) == ("divides", 2)
    assert record.error == "ZeroDivisionError: integer division or modulo by zero"
    assert cloudpickle.loads(record.key) == "a"
    assert record.whole


def test_the_timer_at_which_it_fails_is_kept_with_its_key_and_the_watermark(job, tmp_path):
    options = {"pystate.debug.keep-failing-records": "2", "restart-strategy.type": "none"}
    one = job("a", false_alarms, **options)
    with pytest.raises(PystateError, match="ZeroDivisionError"):
        one.end()
    (file,) = kept_failing_records(tmp_path / "aaaaaaaa").values()
    record = read_failing_record(file)
    assert (record.timer, cloudpickle.loads(record.key), record.whole) == (("EVENT_TIME", 2), 2, True)
    assert [step.kind for step in record.steps] == [StepKind.ROWS, StepKind.WATERMARK]


def test_a_record_that_is_too_large_to_be_kept_is_told(job):
    options = {"pystate.debug.keep-failing-records": "2", "pystate.debug.failing-record-size": "1 kb"}
    one = job("a", divides_long_ones, **options, **{"restart-strategy.type": "none"})
    with pytest.raises(PystateError, match="ZeroDivisionError"):
        one.end()
    said = [line for line in one.said if line.startswith("The record at which the job failed is not kept: ")]
    assert [line.endswith("which is more than pystate.debug.failing-record-size.") for line in said] == [True]


def test_a_job_that_is_given_up_before_its_last_restart_says_why(job):
    options = {"restart-strategy.fixed-delay.attempts": "100", "pipeline.auto-generate-uids": "true"}
    one = job("a", always_fails, **options)
    reason = "3 times with ValueError|twice in the same way before it ran"  # it may fail before all others say that they run
    with pytest.raises(PystateError, match=rf"ValueError: \d\nRecovery is suppressed: the job failed ({reason})"):
        one.end()


def test_a_killed_slot_and_a_dead_relay_lose_and_double_nothing(job, tmp_path, capsys):
    gate = tmp_path / "gate"
    one = job("a", counts(6000, gate=str(gate)))
    one.await_checkpoints()
    one.kill_slot(1)
    one.await_attempt(1)
    one.await_checkpoints()
    one.relays.made[-1].cut((1, 0))
    one.await_attempt(2)
    gate.touch()
    assert one.end() is JobStatus.FINISHED
    check_counts(capsys.readouterr().out, 6000)


@pytest.mark.parametrize("frame", ["lose", "repeat"])
def test_a_frame_that_goes_astray_fails_the_attempt_and_is_made_good(job, tmp_path, capsys, frame):
    gate = tmp_path / "gate"
    one = job("a", counts(gate=str(gate)))
    one.await_attempt(0)
    one.await_checkpoints()
    relays = one.relays.made[0]
    getattr(relays, frame).update(range(relays.carried + 40, relays.carried + 50))
    gate.touch()
    assert one.end() is JobStatus.FINISHED
    assert len(one.relays.made) == 2
    assert "came in the place of" in str(one.status.snapshot()["failures"])
    check_counts(capsys.readouterr().out, 4000)


def test_a_savepoint_is_resumed_at_other_parallelisms_and_nothing_comes_after_it(job, tmp_path, capsys):
    gate = str(tmp_path / "never")
    first = job("a", counts(9000, gate=gate))
    first.await_checkpoints()
    path = first.savepoint(stop=True)
    assert first.end() is JobStatus.FINISHED
    second = job("b", counts(9000, gate=gate), parallelism=3, **{"execution.state-recovery.path": path})
    second.await_checkpoints()
    path = second.savepoint(cancel=True)
    second.thread.join(LONGEST_S)
    third = job("c", counts(9000, 100_000), parallelism=1, **{"execution.state-recovery.path": path})
    assert third.end() is JobStatus.FINISHED
    pairs = printed_pairs(capsys.readouterr().out)
    assert len(pairs) == len(set(pairs)) == 9000


def test_a_job_goes_on_after_a_savepoint_of_a_stop_that_failed(job, tmp_path, capsys, monkeypatch):
    gate = tmp_path / "gate"
    one = job("a", counts(6000, gate=str(gate)), **{"execution.checkpointing.tolerable-failed-checkpoints": "1000"})
    one.await_checkpoints()
    with monkeypatch.context() as broken:
        broken.setattr("pystate.runtime.checkpoint.checkpoint_coordinator.write_snapshot", _refused)
        with pytest.raises(PystateError, match="refused"):
            one.savepoint(stop=True)
    one.await_checkpoints()
    gate.touch()
    assert one.end() is JobStatus.FINISHED
    check_counts(capsys.readouterr().out, 6000)


def _refused(*_):
    message = "refused"
    raise PystateError(message)


def test_what_is_told_at_the_start_speaks_of_no_epochs(job, capsys):
    one = job("a", alarms)
    assert one.end() is JobStatus.FINISHED
    assert "fired" in capsys.readouterr().out
    assert one.said, "the guarantees, at least"
    assert not [line for line in one.said if "epoch" in line]
