"""One level of tasks behind one shuffle: how rows for several tasks travel together, and how each finds its subtask.

A level of one task is fed by rows as they are. For a level of several tasks, the rows of all edges share one schema: the
index of the task, where the row is to go, and a struct column per task of which only the row's own is filled. Partition
numbers count through the subtasks of the first task, then those of the second, and so on.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from pystate.slot.output import OutputSpec
from pystate.slot.records import KEY_GROUP_FIELD, RESERVED_PREFIX
from pystate.slot.task import TaskSpec

TASK_FIELD = RESERVED_PREFIX + "task"
EDGE_FIELD = RESERVED_PREFIX + "edge_{}"


@dataclass(frozen=True)
class Level:
    """The tasks of a level, and the schema of the edge that feeds each.

    Attributes:
        tasks: The tasks.
        edges: The edges, in the order of the tasks.
    """

    tasks: tuple[TaskSpec, ...]
    edges: tuple[OutputSpec, ...]

    @staticmethod
    def of(tasks: list[TaskSpec], outputs: list[OutputSpec]) -> Level:
        """Return the level of `tasks`, fed by those of `outputs` that lead to them."""
        by_target = {output.target: output for output in outputs}
        return Level(tuple(tasks), tuple(by_target[task.uid] for task in tasks))

    @property
    def is_single(self) -> bool:
        """Whether rows travel as they are."""
        return len(self.tasks) == 1

    @property
    def partitions(self) -> int:
        """The number of partitions behind the shuffle: all subtasks of all tasks."""
        return sum(task.parallelism for task in self.tasks)

    def first_partition(self, index: int) -> int:
        """Return the partition of the first subtask of a task."""
        return sum(task.parallelism for task in self.tasks[:index])

    def owner_of(self, partition: int) -> tuple[int, int]:
        """Return the index of the task and the subtask that a partition belongs to."""
        for index, task in enumerate(self.tasks):
            if partition < task.parallelism:
                return index, partition
            partition -= task.parallelism
        message = f"there is no partition {partition} behind the last task"
        raise ValueError(message)

    def schema(self) -> pa.Schema:
        """Return the schema of the rows in front of the shuffle."""
        if self.is_single:
            return self.edges[0].schema()
        structs = [
            pa.field(EDGE_FIELD.format(index), pa.struct(list(edge.schema()))) for index, edge in enumerate(self.edges)
        ]
        return pa.schema([pa.field(TASK_FIELD, pa.int32()), *structs])

    def wrap(self, index: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of the edge to task `index` in the level's schema."""
        if self.is_single:
            return batch
        schema, rows = self.schema(), batch.num_rows
        columns = [pa.array([index] * rows, pa.int32())]
        for other in range(len(self.edges)):
            field = schema.field(EDGE_FIELD.format(other))
            if other == index:
                columns.append(pa.StructArray.from_arrays(batch.columns, fields=list(field.type)))
            else:
                columns.append(pa.nulls(rows, field.type))
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def unwrap(self, index: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that reached a partition of task `index` as its edge made them, with their key groups."""
        if self.is_single:
            return batch
        struct = batch.column(EDGE_FIELD.format(index))
        names = [field.name for field in struct.type]
        columns = struct.flatten()
        if self.tasks[index].key is not None:
            names.append(KEY_GROUP_FIELD)
            columns.append(batch.column(KEY_GROUP_FIELD))
        return pa.RecordBatch.from_arrays(columns, names=names)
