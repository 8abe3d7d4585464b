"""What subtasks took, held against what Spark counts."""

from dataclasses import replace

from pystate.runtime.engines.micro_batch.slot.epoch_ledger import TaskOutcome
from pystate.runtime.engines.micro_batch.slot.prepared_epoch import PreparedEpoch
from pystate.runtime.engines.micro_batch.spark.input_proof import StageFacts, TaskFacts, judge, judge_sources

SUCCEEDED, FAILED, RUNNING = TaskOutcome.SUCCEEDED, TaskOutcome.FAILED, TaskOutcome.RUNNING

WRITES, READS = 4, 5
PREPARED = {
    ("count", 0): PreparedEpoch(9, READS, 70, rows_read=60, rows_in=60, rows_out=60),
    ("count", 1): PreparedEpoch(9, READS, 71, rows_read=40, rows_in=40, rows_out=40),
}
MAPS = (TaskFacts(50, 0, SUCCEEDED, 0, 30), TaskFacts(51, 1, SUCCEEDED, 0, 70))
READERS = (TaskFacts(70, 0, SUCCEEDED, 60, 0), TaskFacts(71, 1, SUCCEEDED, 40, 0))


def clean(stage_id, partitions, read=0, written=0):
    return StageFacts(stage_id, partitions, True, read, written)


def retried(stage_id, partitions, *tasks):
    return StageFacts(stage_id, partitions, False, 0, 0, tasks)


def verdict(*facts, prepared=PREPARED, repeatable=True):
    return judge(prepared, {one.stage_id: one for one in facts}.__getitem__, repeatable=repeatable)


def test_an_epoch_is_whole_where_both_sides_of_the_shuffle_and_the_subtasks_agree():
    assert verdict(clean(WRITES, 2, written=100), clean(READS, 2, read=100)).wrong == ()
    found = verdict(retried(WRITES, 2, *MAPS), retried(READS, 2, *READERS))
    assert (found.waits_for, found.wrong, found.is_final) == (None, (), False)


def test_only_where_every_task_ran_once_spark_has_nothing_more_to_tell():
    """An end of a task that ran again may be on its way, when all that is known agrees."""
    assert verdict(clean(WRITES, 2, written=100), clean(READS, 2, read=100)).is_final
    assert not verdict(clean(WRITES, 2, written=101), clean(READS, 2, read=100)).is_final
    assert not verdict(clean(WRITES, 2, written=100), retried(READS, 2, *READERS)).is_final


def test_rows_that_python_never_saw_are_missed_though_spark_read_them():
    found = verdict(clean(WRITES, 2, written=120), clean(READS, 2, read=120))
    assert "stage 5 have read 120 rows, Python saw 100" in found.wrong[0]


def test_rows_that_spark_wrote_and_never_read_are_missed():
    """A shuffle file that was emptied is read to its end, without an error."""
    found = verdict(clean(WRITES, 2, written=130), clean(READS, 2, read=100))
    assert found.wrong == ("stage 4 has written 130 rows, the subtasks after stage 5 took 100",)


def test_too_many_rows_are_wrong_too():
    assert verdict(clean(WRITES, 2, written=90), clean(READS, 2, read=100)).wrong


def test_the_attempt_that_brought_the_rows_must_be_one_that_spark_counts():
    readers = (replace(READERS[0], outcome=FAILED), READERS[1], TaskFacts(72, 0, SUCCEEDED, 60, 0))
    found = verdict(clean(WRITES, 2, written=100), retried(READS, 2, *readers))
    assert found.wrong == ("task 70, which fed subtask 0 of count, failed",)


def test_one_attempt_of_two_that_spark_counts_is_enough():
    """The stage ran again for lost output, and the later attempt was answered from what the first had left."""
    readers = (*READERS, TaskFacts(75, 0, SUCCEEDED, 60, 0))
    assert verdict(clean(WRITES, 2, written=100), retried(READS, 2, *readers)).wrong == ()


def test_an_attempt_that_read_more_than_it_saw_is_named():
    readers = (replace(READERS[0], read=61), READERS[1])
    found = verdict(clean(WRITES, 2, written=100), retried(READS, 2, *readers))
    assert found.wrong == ("task 70, which fed subtask 0 of count, has read 61 rows in Spark, and Python saw 60 of them",)


def test_what_spark_has_not_told_yet_is_waited_for():
    running = (replace(READERS[0], outcome=RUNNING), READERS[1])
    assert "the end of task 70" in verdict(clean(WRITES, 2, written=100), retried(READS, 2, *running)).waits_for
    assert "the end of task 70" in verdict(clean(WRITES, 2, written=100), retried(READS, 2)).waits_for
    assert "all tasks of stage 4" in verdict(retried(WRITES, 2, MAPS[0]), clean(READS, 2, read=100)).waits_for


def test_a_partition_that_is_written_again_counts_once():
    assert verdict(retried(WRITES, 2, *MAPS, replace(MAPS[0], task_attempt_id=90)), clean(READS, 2, read=100)).wrong == ()
    failed_first = (replace(MAPS[0], task_attempt_id=49, outcome=FAILED, written=3), *MAPS)
    assert verdict(retried(WRITES, 2, *failed_first), clean(READS, 2, read=100)).wrong == ()


def test_a_partition_that_has_other_rows_the_second_time_is_told():
    again = replace(MAPS[1], task_attempt_id=90, written=71)
    (wrong,) = verdict(retried(WRITES, 2, *MAPS, again), clean(READS, 2, read=100)).wrong
    assert "partitions 1 of stage 4 had other rows" in wrong
    assert "not deterministic" in wrong


def test_input_that_is_known_not_to_repeat_itself_must_not_be_written_again():
    failed_first = (replace(MAPS[0], task_attempt_id=49, outcome=FAILED, written=3), *MAPS)
    reads = clean(READS, 2, read=100)
    assert verdict(retried(WRITES, 2, *failed_first), reads, repeatable=False).wrong == (), "nobody has read of that one"
    again = retried(WRITES, 2, *MAPS, replace(MAPS[0], task_attempt_id=90))
    (wrong,) = verdict(again, reads, repeatable=False).wrong
    assert "partitions 0 of stage 4 were run again" in wrong


def test_a_stage_that_spark_runs_again_as_a_whole_after_rows_written_again_is_not_trusted():
    """What Spark does where the rows have other checksums; subtasks that had read before keep what they had."""
    written_again = retried(WRITES, 2, *MAPS, replace(MAPS[0], task_attempt_id=90))
    read_again = retried(READS, 2, *READERS, replace(READERS[0], task_attempt_id=92))
    (wrong,) = verdict(written_again, read_again).wrong
    assert "tasks of stage 4 and stage 5 after it were run again" in wrong
    assert verdict(written_again, retried(READS, 2, *READERS)).wrong == ()
    assert verdict(retried(WRITES, 2, *MAPS), read_again).wrong == ()


def test_as_many_subtasks_as_tasks():
    alone = {("count", 0): replace(PREPARED["count", 0], rows_read=100)}
    assert (
        "1 subtasks were fed by the 2 tasks"
        in verdict(clean(WRITES, 2, written=100), clean(READS, 2, read=100), prepared=alone).wrong[0]
    )


def test_each_level_is_held_against_its_own_shuffle():
    second = {("last", index): PreparedEpoch(9, 6, 80 + index, rows_read=50, rows_in=50, rows_out=0) for index in (0, 1)}
    facts = [clean(WRITES, 2, written=100), clean(READS, 2, read=100, written=100)]
    assert verdict(*facts, clean(6, 2, read=100), prepared={**PREPARED, **second}).wrong == ()
    (wrong,) = verdict(*facts, clean(6, 2, read=99), prepared={**PREPARED, **second}).wrong
    assert "stage 6 have read 99 rows, Python saw 100" in wrong


def test_what_a_sources_own_shuffles_write_must_be_read():
    feeds = clean(WRITES, 2, read=100, written=100)
    assert judge_sources(READS, [clean(3, 2, written=100), feeds]).is_final
    assert judge_sources(READS, [clean(3, 2, written=60), feeds]).is_final, "two branches share a shuffle"
    (wrong,) = judge_sources(READS, [clean(2, 1, written=50), clean(3, 2, read=50, written=100), clean(4, 2, read=40)]).wrong
    assert "have written 150 rows, of which 90 were read" in wrong
    assert judge_sources(READS, [retried(3, 2, MAPS[0]), feeds]).waits_for
    lost = retried(3, 2, *MAPS, replace(MAPS[0], task_attempt_id=90))
    assert judge_sources(READS, [lost, feeds]).wrong == ()
