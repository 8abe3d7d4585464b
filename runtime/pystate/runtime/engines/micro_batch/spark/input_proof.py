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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pystate.runtime.engines.micro_batch.slot.epoch_ledger import TaskOutcome
from pystate.runtime.engines.micro_batch.slot.prepared_epoch import PreparedEpoch, SubtaskId


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
        is_clean: Every task of the epoch was run once and has ended: Spark has nothing more to tell.
    """

    waits_for: str | None = None
    wrong: tuple[str, ...] = ()
    is_clean: bool = False

    @property
    def is_final(self) -> bool:
        """Whether the epoch is whole whatever Spark may still tell."""
        return self.is_clean and self.waits_for is None and not self.wrong


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
    is_clean = True
    for stage_id, shares in sorted(behind.items()):
        # a stage with one shuffle in front of it is numbered right behind the one that writes it: Spark's scheduler makes
        # the stages of a job in one step, what is read first, first
        reading, writing = stage(stage_id), stage(stage_id - 1)
        is_clean = is_clean and reading.is_clean and writing.is_clean
        for verdict in (_tasks(reading, shares), _shuffle(writing, reading, shares, repeatable)):
            if verdict.waits_for is not None:
                return verdict
            wrong += verdict.wrong
    return Verdict(wrong=tuple(wrong), is_clean=is_clean)


def judge_sources(first: int, stages: Iterable[StageFacts]) -> Verdict:
    """Say whether what the sources' own shuffles have written was read.

    More may be read than was written: a shuffle that two branches share is read by both.

    Args:
        first: The first stage whose tasks feed subtasks; the one before it writes for it.
        stages: All stages in front of it.
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


def _shuffle(
    writing: StageFacts, reading: StageFacts, shares: Mapping[SubtaskId, PreparedEpoch], repeatable: bool
) -> Verdict:
    """Hold the rows that were read behind a shuffle against those that were written in front of it."""
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
            return Verdict(wrong=(f"{other}; something in front of key_by() is not deterministic",))
        if again and not repeatable:
            ran = f"partitions {_listed(again)} of {_name(writing)} were run again"
            return Verdict(wrong=(f"{ran}, and the DataFrame in front of key_by() is not deterministic",))
        # so Spark does where rows have moved between partitions, and subtasks that had read before keep what they had
        if again and any(len(runs) > 1 for runs in _successes(reading).values()):
            both = f"{_name(writing)} and {_name(reading)} behind it"
            return Verdict(wrong=(f"tasks of {both} were run again after they had succeeded",))
        written = sum(runs[0].written for runs in counts.values())
    if written == taken:
        return Verdict()
    behind = f"the subtasks behind {_name(reading)} took {taken}"
    return Verdict(wrong=(f"{_name(writing)} has written {written} rows, {behind}",))


def _successes(facts: StageFacts) -> dict[int, list[TaskFacts]]:
    """Return the successful task attempts of a stage by partition; none for a clean one, which has one each."""
    by_partition: dict[int, list[TaskFacts]] = defaultdict(list)
    for task in facts.tasks:
        if task.outcome is TaskOutcome.SUCCEEDED:
            by_partition[task.partition].append(task)
    return by_partition


def _listed(partitions: list[int]) -> str:
    return ", ".join(map(str, sorted(partitions)))


def _name(facts: StageFacts) -> str:
    return f"stage {facts.stage_id}"
