"""Checks that all rows of an epoch have arrived, by comparing the slots' counts with those of Spark's stages.

This proof is independent of the slots: if Spark's side of a Python stage breaks, the rows just end, and a count downstream
is too low without any sign of it. Spark counts separately, in the JVM, where a shuffle is written and where it is read.
Three things must hold for the tasks after each shuffle:

1. Spark counts the task attempt that sent a subtask's rows as successful.
2. That attempt has read as many rows in the JVM as it has seen in Python.
3. All of them together have read what the stage before the shuffle has written. A partition that was written more than once,
because its files were lost, must have had the same number of rows each time.

The module only decides; `StageStore` gets the facts from Spark.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pystate.runtime.engines.micro_batch.slot.epoch_ledger import TaskOutcome
from pystate.runtime.engines.micro_batch.slot.prepared_epoch import PreparedEpoch, SubtaskId


@dataclass(frozen=True)
class TaskFacts:
    """A task attempt, as Spark reports it.

    Attributes:
        partition: Its partition in the stage.
        read: Rows read from a shuffle.
        written: Rows written to the next one.
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
        partitions: The number of partitions.
        is_clean: Every partition ran once, at the first try: the sums are exact, and `tasks` are not needed.
        read: Rows that all task attempts together have read from a shuffle.
        written: Rows that they have written to the next one.
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
    """The result of comparing an epoch with Spark's counts.

    Attributes:
        waits_for: What Spark has not reported yet; None if it has reported everything.
        wrong: The mismatches, one sentence each.
        is_clean: Every task of the epoch ran once and has ended: Spark has nothing more to report.
    """

    waits_for: str | None = None
    wrong: tuple[str, ...] = ()
    is_clean: bool = False

    @property
    def is_final(self) -> bool:
        """Whether the epoch is complete whatever Spark may still report."""
        return self.is_clean and self.waits_for is None and not self.wrong


def judge(
    prepared: Mapping[SubtaskId, PreparedEpoch], stage: Callable[[int], StageFacts], *, repeatable: bool = True
) -> Verdict:
    """Decide whether all rows of an epoch have arrived.

    Args:
        prepared: What each subtask has reported.
        stage: Returns what Spark reports about a stage.
        repeatable: Whether a rewritten partition has the same rows, as far as known. If not, rows may have moved between
            subtasks, some of which had read before. No count reveals that, so no partition may be rewritten.
    """
    by_stage: dict[int, dict[SubtaskId, PreparedEpoch]] = defaultdict(dict)
    for subtask, share in prepared.items():
        by_stage[share.stage_id][subtask] = share
    wrong: list[str] = []
    is_clean = True
    for stage_id, shares in sorted(by_stage.items()):
        # a stage that reads one shuffle is numbered right after the stage that writes it: Spark's scheduler creates the
        # stages of a job in one step, parents first
        reading, writing = stage(stage_id), stage(stage_id - 1)
        is_clean = is_clean and reading.is_clean and writing.is_clean
        for verdict in (_tasks(reading, shares), _shuffle(writing, reading, shares, repeatable)):
            if verdict.waits_for is not None:
                return verdict
            wrong += verdict.wrong
    return Verdict(wrong=tuple(wrong), is_clean=is_clean)


def judge_sources(first: int, stages: Iterable[StageFacts]) -> Verdict:
    """Decide whether everything that the sources' own shuffles have written was read.

    More rows may be read than were written: a shuffle shared by two branches is read by both.

    Args:
        first: The first stage whose tasks feed subtasks; the stage before it writes to it.
        stages: All stages before it.
    """
    written = read = 0
    is_clean = True
    for facts in stages:
        is_clean = is_clean and facts.is_clean
        runs = _successes(facts)
        if not facts.is_clean and len(runs) < facts.partitions:
            return Verdict(waits_for=f"the ends of all tasks of {_name(facts)}")
        read += facts.read if facts.is_clean else sum(tasks[0].read for tasks in runs.values())
        if facts.stage_id != first - 1:
            written += facts.written if facts.is_clean else sum(tasks[0].written for tasks in runs.values())
    if read >= written:
        return Verdict(is_clean=is_clean)
    return Verdict(
        wrong=(f"the shuffles of the sources' DataFrames have written {written} rows, of which {read} were read",)
    )


def _tasks(facts: StageFacts, shares: Mapping[SubtaskId, PreparedEpoch]) -> Verdict:
    """Compare the task attempts that sent rows with Spark's report on each."""
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
        attempt = f"task {share.task_attempt_id}, which fed subtask {subtask} of {uid},"
        if task is None or task.outcome in (TaskOutcome.RUNNING, TaskOutcome.UNKNOWN):
            return Verdict(waits_for=f"the end of {attempt.rstrip(',')}")
        if task.outcome is not TaskOutcome.SUCCEEDED:
            wrong.append(f"{attempt} {task.outcome.value}")
        elif task.read != share.rows_read:
            wrong.append(f"{attempt} has read {task.read} rows in Spark, and Python saw {share.rows_read} of them")
    return Verdict(wrong=tuple(wrong))


def _shuffle(
    writing: StageFacts, reading: StageFacts, shares: Mapping[SubtaskId, PreparedEpoch], repeatable: bool
) -> Verdict:
    """Compare the rows read from a shuffle with those written to it."""
    taken = sum(share.rows_read for share in shares.values())
    written = writing.written
    if not writing.is_clean:
        counts = _successes(writing)
        if len(counts) < writing.partitions:
            return Verdict(waits_for=f"the ends of all tasks of {_name(writing)}")
        again = [partition for partition, runs in counts.items() if len(runs) > 1]
        changed = [partition for partition in again if len({task.written for task in counts[partition]}) > 1]
        if changed:
            other = f"partitions {_listed(changed)} of {_name(writing)} had other rows when they were run again"
            return Verdict(wrong=(f"{other}; something before key_by() is not deterministic",))
        if again and not repeatable:
            ran = f"partitions {_listed(again)} of {_name(writing)} were run again"
            return Verdict(wrong=(f"{ran}, and the DataFrame before key_by() is not deterministic",))
        # so does Spark if rows have moved between partitions, and subtasks that had read before keep their rows
        if again and any(len(runs) > 1 for runs in _successes(reading).values()):
            both = f"{_name(writing)} and {_name(reading)} after it"
            return Verdict(wrong=(f"tasks of {both} were run again after they had succeeded",))
        written = sum(runs[0].written for runs in counts.values())
    if written == taken:
        return Verdict()
    after = f"the subtasks after {_name(reading)} took {taken}"
    return Verdict(wrong=(f"{_name(writing)} has written {written} rows, {after}",))


def _successes(facts: StageFacts) -> dict[int, list[TaskFacts]]:
    """Return the successful task attempts of a stage by partition; none for a clean stage, which has one each."""
    by_partition: dict[int, list[TaskFacts]] = defaultdict(list)
    for task in facts.tasks:
        if task.outcome is TaskOutcome.SUCCEEDED:
            by_partition[task.partition].append(task)
    return by_partition


def _listed(partitions: list[int]) -> str:
    return ", ".join(map(str, sorted(partitions)))


def _name(facts: StageFacts) -> str:
    return f"stage {facts.stage_id}"
