"""The subtasks of a job by place and number, and the channels between them, for an engine with concurrent tasks.

A place is a level and a partition, numbered over the subtasks of the level's tasks. A channel leads from one subtask to
another, independent of the number of edges between their tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from pystate.core.records.codec import KEY_GROUP_FIELD
from pystate.runtime.plan.job_plan import JobPlan, edges_of
from pystate.runtime.plan.task import TaskSpec

SubtaskId = tuple[str, int]
"""The uid of a task, and the index of its subtask."""

Place = tuple[int, int]
"""A level, and a partition of it."""


@dataclass(frozen=True)
class TaskChannels:
    """The input channels of the subtasks of a task.

    Attributes:
        parallelism: Of the task.
        max_parallelism: The number of its key groups.
        level: Its level.
        first_partition: The partition of its first subtask.
        upstream: The senders to each of its subtasks; the index of a sender is its channel number.
        schemas: The serialized schemas of the incoming batches, by input.
    """

    parallelism: int
    max_parallelism: int
    level: int
    first_partition: int
    upstream: tuple[SubtaskId, ...]
    schemas: Mapping[int, bytes]

    def places(self) -> list[Place]:
        """Return the place of each subtask."""
        return [(self.level, self.first_partition + index) for index in range(self.parallelism)]


@dataclass(frozen=True)
class JobChannels:
    """All subtasks of a job, and the channels between them.

    Attributes:
        tasks: By uid.
        partitions: The number of partitions of each level.
        targets: The uids of the tasks that a task sends to, by its uid.
    """

    tasks: Mapping[str, TaskChannels]
    partitions: tuple[int, ...]
    targets: Mapping[str, tuple[str, ...]]

    @staticmethod
    def of(plan: JobPlan) -> JobChannels:
        """Return the channels of a plan."""
        targets = {task.uid: tuple(dict.fromkeys(str(edge.target) for edge in edges_of(task))) for task in plan.tasks}
        tasks: dict[str, TaskChannels] = {}
        for number, level in enumerate(plan.levels):
            first = 0
            for task in level:
                tasks[task.uid] = TaskChannels(
                    task.parallelism,
                    task.max_parallelism,
                    number,
                    first,
                    upstream_of(plan, task.uid),
                    _schemas(plan, task),
                )
                first += task.parallelism
        counts = tuple(sum(task.parallelism for task in level) for level in plan.levels)
        return JobChannels(tasks, counts, targets)

    @property
    def count(self) -> int:
        """The number of channels."""
        return sum(len(task.upstream) * task.parallelism for task in self.tasks.values())

    def receivers(self, uid: str) -> list[Place]:
        """Return the places of all subtasks that those of a task send to."""
        return [place for target in self.targets[uid] for place in self.tasks[target].places()]

    def owner(self, place: Place) -> SubtaskId:
        """Return the subtask at a place.

        Raises:
            KeyError: There is none.
        """
        level, partition = place
        for uid, task in self.tasks.items():
            if task.level == level and 0 <= partition - task.first_partition < task.parallelism:
                return uid, partition - task.first_partition
        raise KeyError(place)


def upstream_of(plan: JobPlan, uid: str) -> tuple[SubtaskId, ...]:
    """Return the senders to each subtask of a task, by channel.

    Args:
        plan: The job.
        uid: The task.
    """
    senders = [task for task in plan.tasks if any(edge.target == uid for edge in edges_of(task))]
    return tuple((task.uid, index) for task in senders for index in range(task.parallelism))


def _schemas(plan: JobPlan, task: TaskSpec) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    for sender in plan.tasks:
        for edge in edges_of(sender):
            if edge.target != task.uid:
                continue
            schema = edge.schema()
            if task.inputs[edge.input_index].key is not None:
                schema = schema.append(pa.field(KEY_GROUP_FIELD, pa.int32()))
            found[edge.input_index] = schema.serialize().to_pybytes()
    return found
