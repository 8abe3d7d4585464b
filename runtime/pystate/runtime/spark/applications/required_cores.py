"""How many tasks of Spark's a job needs at once, by its engine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class RequiredCores:
    """What a job needs.

    Attributes:
        parallelism: Of the job.
        cores: How many tasks must be able to run at once.
        least: With how many a job that has run before goes on, more slowly.
        formula: How the number comes about, for people; empty where that needs no words.
        fixed: How many of them are there at any parallelism.
        per_subtask: How many more for each one of the parallelism.
        least_parallelism: The least parallelism that the program leaves open.
    """

    parallelism: int
    cores: int
    least: int
    formula: str
    fixed: int
    per_subtask: int
    least_parallelism: int = 1

    def to_go_on(self) -> RequiredCores:
        """Return the least that an attempt needs, which may begin with what is left of a cluster."""
        return self if self.least == self.cores else replace(self, cores=self.least, formula="")

    def fitting(self, cores: int) -> int | None:
        """Return the highest parallelism for which so many cores are enough; None if there is none."""
        found = (cores - self.fixed) // self.per_subtask
        return found if found >= self.least_parallelism else None


def micro_batch_cores(parallelism: int) -> RequiredCores:
    """Return the slots, as many exchanges, and two tasks to feed them; epochs end with the slots and one more task, too.

    Args:
        parallelism: How many slots.
    """
    return RequiredCores(parallelism, 2 * parallelism + 2, parallelism + 1, "2 x parallelism + 2", 2, 2)


def real_time_cores(parallelism: int, tasks: Iterable[int]) -> RequiredCores:
    """Return the slots and the relays, which last as long as the attempt: with one core less none of them begins.

    Args:
        parallelism: How many slots.
        tasks: The parallelism of each task, each subtask of which has a relay.
    """
    parallelisms = list(tasks)
    relays = sum(parallelisms)
    others = [one for one in parallelisms if one < parallelism]
    cores, as_wide = parallelism + relays, len(parallelisms) - len(others)
    formula = f"{parallelism} for slots and {relays} for relays, one for each subtask of the real-time engine"
    return RequiredCores(parallelism, cores, cores, formula, sum(others), 1 + as_wide, max(others, default=1))
