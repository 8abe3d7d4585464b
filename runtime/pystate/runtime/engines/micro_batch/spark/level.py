"""One level of tasks after one shuffle: how rows for several tasks share a shuffle, and how each row finds its subtask.

A port is an input of a task: rows of one schema with one routing. A level with a single port receives its rows unchanged.
Otherwise the rows of all ports share one schema: the index of the port, and a struct column per port, of which only the
row's own is filled. Partition numbers count the subtasks of the level's first task, then those of the second, and so on.

Rows for a port of a later level pass through the levels between, on any partition, where those of one partition stay
together and so in order. No slot sees them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pystate.common.errors import ControlError
from pystate.core.records.codec import KEY_GROUP_FIELD, RESERVED_PREFIX
from pystate.core.records.key_column import KeyColumn
from pystate.runtime.plan.chain import Chain
from pystate.runtime.plan.job_plan import JobPlan, edges_of
from pystate.runtime.plan.task import TaskSpec
from pystate.runtime.plan.task_output import OutputSpec, Routing, with_watermarks

PORT_FIELD = RESERVED_PREFIX + "port"
ROWS_FIELD = RESERVED_PREFIX + "port_{}"
TURN_FIELD = RESERVED_PREFIX + "turn"

_INT_MAX = 0x7FFFFFFF

PortKey = tuple[str, int, Routing]
"""The uid of a task, the index of an input, and its routing."""


@dataclass(frozen=True)
class Port:
    """An input of a task.

    Attributes:
        task: The task.
        input_index: The index of the input.
        routing: The routing of rows to subtasks.
        edge: One of the edges that lead to the port; None if Spark's columns do.
    """

    task: TaskSpec
    input_index: int
    routing: Routing
    edge: OutputSpec | None = None

    @property
    def key(self) -> KeyColumn | None:
        """The position of the key in the rows."""
        return None if self.routing is Routing.WATERMARK else self.task.inputs[self.input_index].key

    @property
    def frame_index(self) -> int:
        """The index under which a slot receives the rows: the input index, or for watermarks one after all inputs."""
        return self.input_index + (len(self.task.inputs) if self.routing is Routing.WATERMARK else 0)

    def schema(self) -> pa.Schema:
        """Return the schema of the rows, including the number column of round-robin rows."""
        assert self.edge is not None  # noqa: S101 - rows with Spark's columns are never wrapped
        schema = self.edge.schema()
        return schema.append(pa.field(TURN_FIELD, pa.int32())) if self.routing.takes_turns else schema


@dataclass(frozen=True)
class Level:
    """The tasks of a level, and the ports of the shuffle before it.

    Attributes:
        tasks: The tasks.
        ports: The ports of these tasks.
        passing: The ports of tasks of later levels.
        in_order: Rows after the shuffle are sorted by key and time, over all ports of a task.
    """

    tasks: tuple[TaskSpec, ...]
    ports: tuple[Port, ...]
    passing: tuple[Port, ...] = ()
    in_order: bool = False
    _index: dict[PortKey, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Number the ports: those of this level, then the passing ones."""
        all_ports = enumerate((*self.ports, *self.passing))
        object.__setattr__(self, "_index", {_key(port): index for index, port in all_ports})

    def without_functions(self) -> Level:
        """Return the level for stages that only pass rows on: unpickling it imports no code of the job."""
        ports, passing = tuple(map(_without_functions, self.ports)), tuple(map(_without_functions, self.passing))
        return replace(self, tasks=tuple(map(_bare, self.tasks)), ports=ports, passing=passing)

    @property
    def is_single(self) -> bool:
        """Whether rows travel unchanged."""
        return len(self.ports) == 1 and not self.passing

    @property
    def partitions(self) -> int:
        """The number of partitions after the shuffle: all subtasks of all tasks."""
        return sum(task.parallelism for task in self.tasks)

    def first_partition(self, task: TaskSpec) -> int:
        """Return the partition of the first subtask of a task."""
        return sum(before.parallelism for before in self.tasks[: [other.uid for other in self.tasks].index(task.uid)])

    def owner_of(self, partition: int) -> tuple[TaskSpec, int]:
        """Return the task and the subtask that own a partition."""
        for task in self.tasks:
            if partition < task.parallelism:
                return task, partition
            partition -= task.parallelism
        message = f"there is no partition {partition} after the last task"
        raise ValueError(message)

    def index_of(self, edge: OutputSpec) -> int | None:
        """Return the index of the port that an edge leads to; None if its rows don't pass this level."""
        return self._index.get((str(edge.target), edge.input_index, edge.routing))

    def index_of_port(self, port: Port) -> int:
        """Return this level's index of a port that passes through the previous level."""
        return self._index[_key(port)]

    def port(self, index: int) -> Port:
        """Return a port of this level, or a passing one."""
        return (*self.ports, *self.passing)[index]

    def schema(self) -> pa.Schema:
        """Return the schema of the rows before the shuffle."""
        if self.is_single:
            return self.ports[0].schema()
        structs = [
            pa.field(ROWS_FIELD.format(index), pa.struct(list(port.schema())))
            for index, port in enumerate((*self.ports, *self.passing))
        ]
        return pa.schema([pa.field(PORT_FIELD, pa.int32()), *structs])

    def wrap(self, index: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Convert rows of a port's schema to the level's schema."""
        if self.is_single:
            return rows
        schema, count = self.schema(), rows.num_rows
        columns = [pa.array([index] * count, pa.int32())]
        for other, struct in enumerate(list(schema)[1:]):
            if other == index:
                columns.append(pa.StructArray.from_arrays(rows.columns, names=rows.schema.names))
            else:
                columns.append(pa.nulls(count, struct.type))
        return pa.RecordBatch.from_arrays(columns, names=schema.names)

    def unwrap(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the rows of a batch after the shuffle, port by port.

        Rows for a keyed input of this level include their key groups; passing rows have the port's schema.
        """
        if self.is_single:
            yield 0, batch
            return
        for index, rows in self._runs(batch) if self.in_order else self._by_port(batch):
            port, struct = self.port(index), rows.column(ROWS_FIELD.format(index))
            names, columns = [part.name for part in struct.type], struct.flatten()
            if index < len(self.ports) and port.key is not None:
                names.append(KEY_GROUP_FIELD)
                columns.append(rows.column(KEY_GROUP_FIELD))
            yield index, pa.RecordBatch.from_arrays(columns, names=names)

    @staticmethod
    def _by_port(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        numbers = batch.column(PORT_FIELD)
        for index in pc.unique(numbers).to_pylist():
            yield index, batch if pc.all(pc.equal(numbers, index)).as_py() else batch.filter(pc.equal(numbers, index))

    @staticmethod
    def _runs(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield runs of consecutive rows for one port; a key may alternate between both inputs of its task."""
        start = 0
        for index, count in _lengths(batch.column(PORT_FIELD).to_pylist()):
            yield index, batch.slice(start, count)
            start += count


def _lengths(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Yield each number with the length of its run."""
    for number, same in itertools.groupby(numbers):
        yield number, sum(1 for _ in same)


class LevelWriter:
    """Converts the output rows of one Spark task to a level's schema.

    Args:
        level: The level that the rows go to.
        partition: The partition of the Spark task; round-robin rows start at a different subtask in each.
    """

    def __init__(self, level: Level, partition: int) -> None:
        self.level = level
        self._first = partition
        self._turns: dict[int, int] = {}

    def write(self, index: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of an edge in the level's schema, for the port `index`.

        Round-robin rows are numbered here: a slot returns its output in the same order each time, a shuffle doesn't.
        """
        if self.level.port(index).routing.takes_turns:
            turn = self._turns.get(index, self._first)
            self._turns[index] = turn + rows.num_rows
            numbers = [number & _INT_MAX for number in range(turn, turn + rows.num_rows)]
            rows = rows.append_column(TURN_FIELD, pa.array(numbers, pa.int32()))
        return self.level.wrap(index, rows)


def level_index(level: Level | None, edge: OutputSpec) -> int:
    """Return the index of the port that an edge leads to.

    Raises:
        ControlError: The rows don't pass this level.
    """
    index = None if level is None else level.index_of(edge)
    if index is None:
        message = f"There is no way from {edge.name!r} to its task."
        raise ControlError(message)
    return index


def levels_of(plan: JobPlan) -> list[Level]:
    """Return the levels of a plan, with the ports into and through each."""
    level_of = {task.uid: number for number, tasks in enumerate(plan.levels) for task in tasks}
    ports: list[dict[PortKey, Port]] = [{} for _ in plan.levels]
    passing: list[dict[PortKey, Port]] = [{} for _ in plan.levels]
    edges = [(-1, edge) for edge in with_watermarks(plan.source_edges())]
    edges += [(level_of[task.uid], edge) for task in plan.tasks for edge in with_watermarks(edges_of(task))]
    if plan.direct_routing is not None:
        (task,) = plan.levels[0]
        ports[0][task.uid, 0, plan.direct_routing] = Port(task, 0, plan.direct_routing)
    for made_at, edge in edges:
        task = plan.task(str(edge.target))
        port = Port(task, edge.input_index, edge.routing, edge)
        ports[level_of[task.uid]].setdefault(_key(port), port)
        for between in range(made_at + 1, level_of[task.uid]):
            passing[between].setdefault(_key(port), port)
    return [
        Level(tuple(tasks), tuple(own.values()), tuple(through.values()), in_order=plan.batch)
        for tasks, own, through in zip(plan.levels, ports, passing, strict=True)
    ]


def _bare(task: TaskSpec) -> TaskSpec:
    return replace(task, inputs=[replace(read, decoder=None, taken={}) for read in task.inputs], head=None, chain=Chain())


def _without_functions(port: Port) -> Port:
    edge = port.edge
    if edge is not None and edge.selector is not None:
        edge = replace(edge, selector=_selected_elsewhere, taken={})
    return replace(port, task=_bare(port.task), edge=edge)


def _selected_elsewhere(_element: Any) -> Any:
    message = "Keys are selected where the rows are made, not where they are handed on."
    raise ControlError(message)


def _key(port: Port) -> PortKey:
    return port.task.uid, port.input_index, port.routing
