"""Whether an epoch's rows have all arrived: what slots took, held against what Spark's stages wrote and read.

A second proof, independent of the slots: where Spark's side of a Python stage breaks, the rows just end, and whoever counts
them behind that counts too few and finds them complete. Spark counts on its own, in the JVM, where a shuffle is written and
where it is read. Three things must hold for the tasks behind each shuffle:

1. Spark counts the task attempt that brought a subtask's rows as successful.
2. That attempt has read as many rows in the JVM as it has seen in Python.
3. All of them together have read what the stage in front of the shuffle has written. A partition that was written more than
   once, because its files were lost, must have had as many rows each time.

Pure decisions; `StageStore` brings the facts from Spark.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pystate.slot.epoch_ledger import TaskOutcome
from pystate.slot.prepared_epoch import PreparedEpoch, SubtaskId


@dataclass(frozen=True)
class TaskFacts:
    """A task attempt, as Spark tells it.

    Attributes:
        partition: Of its stage.
        read: Rows read behind a shuffle.
        written: Rows written for the next one.
    """

    task_attempt_id: int
    partition: int
    outcome: TaskOutcome
    read: int
    written: int


@dataclass(frozen=True)
class StageFacts:
    """A stage, over all its attempts.

    Attributes:
        partitions: How many it has.
        is_clean: Every partition was run once, at the first try: the sums are exact, and `tasks` are not needed.
        read: Rows that all task attempts together have read behind a shuffle.
        written: Rows that they have written for the next one.
        tasks: Every task attempt; empty for a clean stage.
    """

    stage_id: int
    partitions: int
    is_clean: bool
    read: int
    written: int
    tasks: tuple[TaskFacts, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """What came of holding an epoch against Spark's figures.

    Attributes:
        waits_for: What Spark has not told yet; None where it has told everything.
        wrong: What doesn't agree, a sentence each.
    """

    waits_for: str | None = None
    wrong: tuple[str, ...] = ()


def judge(
    prepared: Mapping[SubtaskId, PreparedEpoch], stage: Callable[[int], StageFacts], *, repeatable: bool = True
) -> Verdict:
    """Say whether all rows of an epoch have arrived.

    Args:
        prepared: What each subtask has told.
        stage: Returns what Spark says of a stage.
        repeatable: Whether a partition that is written again has the same rows, as far as is known. Where it hasn't, rows
            may have moved between subtasks of which some had read before; no number shows it, so none may be written again.
    """
    behind: dict[int, dict[SubtaskId, PreparedEpoch]] = defaultdict(dict)
    for subtask, share in prepared.items():
        behind[share.stage_id][subtask] = share
    wrong: list[str] = []
    for stage_id, shares in sorted(behind.items()):
        # a stage with one shuffle in front of it is numbered right behind the one that writes it: Spark's scheduler makes
        # the stages of a job in one step, what is read first, first
        for verdict in (_tasks(stage(stage_id), shares), _shuffle(stage(stage_id - 1), stage_id, shares, repeatable)):
            if verdict.waits_for is not None:
                return verdict
            wrong += verdict.wrong
    return Verdict(wrong=tuple(wrong))


def _tasks(facts: StageFacts, shares: Mapping[SubtaskId, PreparedEpoch]) -> Verdict:
    """Hold the task attempts that brought rows against Spark's word on each of them."""
    taken = sum(share.rows_read for share in shares.values())
    if facts.is_clean:
        if facts.partitions != len(shares):
            return Verdict(wrong=(f"{len(shares)} subtasks were fed by the {facts.partitions} tasks of {_name(facts)}",))
        if facts.read == taken:
            return Verdict()
        return Verdict(wrong=(f"Spark's tasks of {_name(facts)} have read {facts.read} rows, Python saw {taken} of them",))
    tasks = {task.task_attempt_id: task for task in facts.tasks}
    wrong = []
    for (uid, subtask), share in sorted(shares.items()):
        task = tasks.get(share.task_attempt_id)
        who = f"task {share.task_attempt_id}, which fed subtask {subtask} of {uid},"
        if task is None or task.outcome in (TaskOutcome.RUNNING, TaskOutcome.UNKNOWN):
            return Verdict(waits_for=f"the end of {who.rstrip(',')}")
        if task.outcome is not TaskOutcome.SUCCEEDED:
            wrong.append(f"{who} {task.outcome.value}")
        elif task.read != share.rows_read:
            wrong.append(f"{who} has read {task.read} rows in Spark, and Python saw {share.rows_read} of them")
    return Verdict(wrong=tuple(wrong))


def _shuffle(facts: StageFacts, behind: int, shares: Mapping[SubtaskId, PreparedEpoch], repeatable: bool) -> Verdict:
    """Hold the rows that were read behind a shuffle against those that were written in front of it."""
    taken = sum(share.rows_read for share in shares.values())
    written = facts.written
    if not facts.is_clean:
        by_partition: dict[int, list[int]] = defaultdict(list)
        for task in facts.tasks:
            if task.outcome is TaskOutcome.SUCCEEDED:
                by_partition[task.partition].append(task.written)
        if len(by_partition) < facts.partitions:
            return Verdict(waits_for=f"the ends of all tasks of {_name(facts)}")
        again = sorted(partition for partition, counts in by_partition.items() if len(counts) > 1)
        if again and not repeatable:
            ran = f"partitions {', '.join(map(str, again))} of {_name(facts)} were run again"
            return Verdict(wrong=(f"{ran}, and the DataFrame in front of key_by() is not deterministic",))
        changed = [partition for partition in again if len(set(by_partition[partition])) > 1]
        if changed:
            other = f"partitions {', '.join(map(str, changed))} of {_name(facts)} had other rows when they were run again"
            return Verdict(wrong=(f"{other}; something in front of key_by() is not deterministic",))
        written = sum(counts[0] for counts in by_partition.values())
    if written == taken:
        return Verdict()
    return Verdict(wrong=(f"{_name(facts)} has written {written} rows, the subtasks behind stage {behind} took {taken}",))


def _name(facts: StageFacts) -> str:
    return f"stage {facts.stage_id}"
