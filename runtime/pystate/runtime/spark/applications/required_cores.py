"""The number of concurrent Spark tasks that a job needs, by engine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class RequiredCores:
    """The cores that a job needs.

    Attributes:
        parallelism: The parallelism of the job.
        cores: How many tasks must be able to run concurrently.
        least: The number with which a job that has run before can continue, more slowly.
        formula: How the number is computed, for messages; empty if it is obvious.
        fixed: The part that is independent of the parallelism.
        per_subtask: The additional cores per unit of parallelism.
        least_parallelism: The least parallelism that the program allows.
    """

    parallelism: int
    cores: int
    least: int
    formula: str
    fixed: int
    per_subtask: int
    least_parallelism: int = 1

    def to_go_on(self) -> RequiredCores:
        """Return the requirement of a restarted attempt, which may begin with the remaining part of a cluster."""
        return self if self.least == self.cores else replace(self, cores=self.least, formula="")

    def fitting(self, cores: int) -> int | None:
        """Return the highest parallelism for which a number of cores is enough; None if there is none."""
        found = (cores - self.fixed) // self.per_subtask
        return found if found >= self.least_parallelism else None


def micro_batch_cores(parallelism: int) -> RequiredCores:
    """Return the cores for slots, as many exchanges, and two tasks to feed them; the minimum is the slots and one task.

    Args:
        parallelism: The number of slots.
    """
    return RequiredCores(parallelism, 2 * parallelism + 2, parallelism + 1, "2 x parallelism + 2", 2, 2)


def real_time_cores(parallelism: int, tasks: Iterable[int]) -> RequiredCores:
    """Return the cores for slots and relays, which last as long as the attempt: with one core less, none of them starts.

    Args:
        parallelism: The number of slots.
        tasks: The parallelism of each task, each subtask of which has a relay.
    """
    parallelisms = list(tasks)
    relays = sum(parallelisms)
    others = [one for one in parallelisms if one < parallelism]
    cores, as_wide = parallelism + relays, len(parallelisms) - len(others)
    formula = f"{parallelism} for slots and {relays} for relays, one for each subtask of the real-time engine"
    return RequiredCores(parallelism, cores, cores, formula, sum(others), 1 + as_wide, max(others, default=1))
