"""Writers and committers of sinks, as a slot drives them."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from pystate.common.errors import CommitError, JobGraphError, PystateError, RestoreError
from pystate.connectors.delivery_guarantee import DeliveryGuarantee
from pystate.connectors.sink import Committer, Sink, SinkWriter
from pystate.testing import SinkTestHarness
from tests.connectors.folder_sink import FolderSink, RememberingSink


def opened(sink, snapshot=None, **options):
    harness = SinkTestHarness(sink, **options)
    if snapshot is not None:
        harness.initialize_state(snapshot)
    harness.open()
    return harness


def test_what_a_sink_writes_is_visible_once_its_checkpoint_is_complete(tmp_path):
    sink = FolderSink(tmp_path)
    with opened(sink) as harness:
        harness.process_elements(["a", "b"])
        harness.snapshot(1)
        harness.process_elements(["c"])
        assert not sink.lines()
        harness.notify_of_completed_checkpoint(1)
        assert sink.lines() == Counter("ab")
        assert harness.num_pending_committables() == 0


def test_a_commit_takes_along_what_older_checkpoints_and_savepoints_hold(tmp_path):
    sink = FolderSink(tmp_path)
    with opened(sink) as harness:
        for number, element in enumerate("abc", 1):
            harness.process_element(element)
            harness.snapshot(number)
        harness.notify_of_aborted_checkpoint(1)
        harness.notify_of_completed_checkpoint(2)
        assert (sink.lines(), harness.num_pending_committables()) == (Counter("ab"), 1)


def test_what_a_checkpoint_holds_is_committed_when_a_job_starts_from_it(tmp_path):
    sink = FolderSink(tmp_path)
    with opened(sink) as harness:
        harness.process_elements(["a"])
        snapshot = harness.snapshot(1)
        harness.process_elements(["lost"])  # and read again by whoever restores
    with opened(sink, snapshot) as harness:
        assert sink.lines() == Counter("a")
        harness.process_elements(["b"])
        second = harness.snapshot(2)
        harness.notify_of_completed_checkpoint(2)
    for _ in range(2):  # nobody knows whether it was committed
        with opened(sink, second) as harness:
            assert sink.lines() == Counter("ab")
            assert harness.get_metrics()["alreadyCommittedCommittables"] == 1


def test_what_a_snapshot_holds_is_committed_whatever_its_numbers_are(tmp_path):
    sink = FolderSink(tmp_path)
    with opened(sink) as harness:
        harness.process_element("a")
        snapshot = harness.snapshot(57)
    with opened(sink, replace(snapshot, checkpoint_id=0)):
        assert sink.lines() == Counter("a")


def test_committables_of_a_sink_that_has_no_committer_any_more_are_refused(tmp_path):
    with opened(FolderSink(tmp_path)) as harness:
        nothing_written = harness.snapshot(1)
        harness.process_element("a")
        snapshot = harness.snapshot(2)
    with pytest.raises(RestoreError, match="holds 1 committables, and Plain has no committer") as refused:
        opened(Plain(), snapshot)
    assert "another uid" in refused.value.hint
    opened(Plain(), nothing_written).close()


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (2, 3)])
def test_committables_and_writers_states_move_to_other_subtasks(tmp_path, before, after):
    sink, snapshots, order = RememberingSink(tmp_path, least=4), [], random.Random(1)
    written = Counter(str(number) for number in range(40))
    for subtask in range(before):
        with opened(sink, parallelism=before, subtask_index=subtask) as harness:
            share = [number for number in range(40) if number % before == subtask]
            cut = order.randrange(len(share) - 3, len(share))
            harness.process_elements(share[:cut])
            harness.snapshot(1)
            harness.process_elements(share[cut:])
            snapshots.append(harness.snapshot(2))
    ends = []
    for share in SinkTestHarness.repartition(snapshots, before, after, 128):
        with opened(sink, share, parallelism=after, subtask_index=share.subtask_index) as harness:
            harness.end_input()
            ends.append(harness.snapshot(3))
            harness.notify_of_completed_checkpoint(3)
    assert sink.lines() == written
    assert not sink.waiting()


def test_the_end_of_the_input_is_the_last_flush_and_without_checkpoints_the_commit(tmp_path):
    sink = RememberingSink(tmp_path, least=100)
    with opened(sink) as harness:
        harness.process_elements(["a", "b"])
        harness.end_input()
        harness.end_epoch()
        assert not sink.lines()
        harness.commit_rest()
        assert sink.lines() == Counter("ab")


def test_an_epoch_that_has_written_can_not_be_rolled_back(tmp_path):
    with opened(FolderSink(tmp_path)) as harness:
        harness.process_element("a")
        with pytest.raises(PystateError, match="checkpoint"):
            harness.roll_back_epoch()


class Moody(Committer):
    """Does with each committable what a list says."""

    def __init__(self, moods, done):
        self.moods = moods
        self.done = done

    def commit(self, requests):
        for request in requests:
            mood = self.moods.pop(0) if self.moods else "good"
            if mood == "raises":
                message = "no connection"
                raise ConnectionError(message)
            if mood == "update":
                request.update_and_retry_later(f"{request.get_committable()}!")
            elif mood == "retry":
                request.retry_later()
            elif mood == "busy":
                request.retry_later(TimeoutError("the lock is held"))
            elif mood == "known":
                request.signal_failed_with_known_reason(ValueError("too old"))
            elif mood == "unknown":
                request.signal_failed_with_unknown_reason(ValueError("odd"))
            else:
                self.done.append((request.get_committable(), request.get_number_of_retries()))


class MoodySink(FolderSink):
    def __init__(self, root, moods):
        super().__init__(root)
        self.moods = moods
        self.done = []

    def create_committer(self, context):
        return Moody(self.moods, self.done)


def committed(tmp_path, moods, checkpoints=1, **parameters):
    sink = MoodySink(tmp_path, moods)
    with opened(sink, job_parameters=parameters) as harness:
        for number in range(1, checkpoints + 1):
            harness.process_element(number)
            harness.snapshot(number)
        try:
            harness.notify_of_completed_checkpoint(checkpoints)
        finally:
            pending = harness.num_pending_committables()
            figures = harness.get_metrics()
    return sink.done, pending, figures


def test_a_commit_may_ask_for_another_try(tmp_path):
    done, pending, figures = committed(tmp_path, ["retry", "update"])
    assert ([(name[-1], retries) for name, retries in done], pending) == ([("!", 2)], 0)
    assert (figures["retriedCommittables"], figures["successfulCommittables"]) == (2, 1)


def test_after_a_committable_that_waits_no_younger_one_is_committed(tmp_path):
    sink = MoodySink(tmp_path, ["retry", "good", "good"])
    with opened(sink) as harness:
        names = []
        for number in (1, 2):
            harness.process_element(number)
            harness.snapshot(number)
            names.append(harness._operator._committables.snapshot()[-1][1][0])
        harness.notify_of_completed_checkpoint(2)
    assert [name for name, _ in sink.done] == names


def test_too_many_tries_fail_the_job(tmp_path):
    with pytest.raises(CommitError, match="after 3 retries") as failed:
        committed(tmp_path, ["retry"] * 9, **{"sink.committer.retries": 3})
    assert "sink.committer.retries" in str(failed.value.hint)
    with pytest.raises(CommitError, match="after 1 retries: TimeoutError: the lock is held"):
        committed(tmp_path, ["busy"] * 9, **{"sink.committer.retries": 1})


@pytest.mark.parametrize(("mood", "said"), [("unknown", "odd"), ("raises", "no connection")])
def test_an_unknown_failure_fails_the_job_and_keeps_the_committable(tmp_path, mood, said):
    sink = MoodySink(tmp_path, ["good", mood])
    with opened(sink) as harness:
        for number in (1, 2):
            harness.process_element(number)
            harness.snapshot(number)
        with pytest.raises(CommitError, match=said):
            harness.notify_of_completed_checkpoint(2)
        assert harness.num_pending_committables() == 1


def test_a_known_failure_is_dropped_and_counted(tmp_path):
    done, pending, figures = committed(tmp_path, ["known"])
    assert (done, pending, figures["failedCommittables"]) == ([], 0, 1)
    assert figures["successfulCommittables"] == 0


class Plain(Sink):
    """Without a committer."""

    def __init__(self):
        self.written = []
        self.seen = []

    def create_writer(self, context):
        sink = self

        class Writer(SinkWriter):
            def write(self, element, context):
                sink.seen.append((context.timestamp(), context.current_watermark(), context.current_processing_time()))
                self.held = [*getattr(self, "held", []), element]

            def flush(self, end_of_input):
                sink.written += getattr(self, "held", [])
                self.held = []

        return Writer()


def test_a_sink_without_a_committer_is_flushed_at_each_checkpoint():
    sink = Plain()
    with opened(sink) as harness:
        harness.set_processing_time(5)
        harness.process_element("a", timestamp=3)
        harness.process_watermark(2)
        harness.process_element("b")
        assert sink.written == []
        harness.snapshot(1)
        assert sink.written == ["a", "b"]
        assert sink.seen == [(3, -(1 << 63), 5), (None, 2, 5)]
    assert sink.delivery_guarantee is DeliveryGuarantee.AT_LEAST_ONCE
    assert FolderSink("x").delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE


class Liar(Plain, FolderSink):
    def __init__(self):
        Plain.__init__(self)
        self.root = None

    def create_committer(self, context):
        return Moody([], [])


def test_a_sink_that_promises_a_committer_has_writers_for_it():
    with pytest.raises(JobGraphError, match="Liar is SupportsCommitter, and its writer is no CommittingSinkWriter"):
        opened(Liar())


def test_what_writers_know_of_their_place(tmp_path):
    seen = []

    class Asking(Plain):
        def create_writer(self, context):
            place = (context.get_index_of_this_subtask(), context.get_number_of_parallel_subtasks())
            seen.append((place, context.get_attempt_number(), context.get_restored_checkpoint_id(), context.get_job_id()))
            assert context.get_operator_uid()
            return super().create_writer(context)

    opened(Asking(), parallelism=3, subtask_index=2, attempt=4).close()
    assert seen == [((2, 3), 4, None, "0" * 32)]
