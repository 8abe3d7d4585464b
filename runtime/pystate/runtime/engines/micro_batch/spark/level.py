"""One level of tasks behind one shuffle: how rows for several tasks travel together, and how each finds its subtask.

A port is a way into a task: rows of one schema that are routed alike. A level with one port and nothing else is fed by rows
as they are. Else the rows of all ports share one schema: the index of the port, and a struct column per port of which only
the row's own is filled. Partition numbers count through the subtasks of the level's first task, then those of the second,
and so on.

Rows for a port of a later level pass through: they ride on any partition of the levels between, those of one partition
together, so that they stay in order, and no slot sees them.
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
"""The uid of a task, one of its inputs, and how rows get to its subtasks."""


@dataclass(frozen=True)
class Port:
    """A way into a task.

    Attributes:
        task: The task.
        input_index: Which of its inputs.
        routing: Which subtask gets a row.
        edge: One of the edges that lead here; None where Spark's columns do.
    """

    task: TaskSpec
    input_index: int
    routing: Routing
    edge: OutputSpec | None = None

    @property
    def key(self) -> KeyColumn | None:
        """Where the key stands in the rows."""
        return None if self.routing is Routing.WATERMARK else self.task.inputs[self.input_index].key

    @property
    def frame_index(self) -> int:
        """The number under which a slot gets the rows: that of the input; for watermarks, counted on behind all inputs."""
        return self.input_index + (len(self.task.inputs) if self.routing is Routing.WATERMARK else 0)

    def schema(self) -> pa.Schema:
        """Return the schema of the rows, with the number that rows sent in turn have."""
        assert self.edge is not None  # noqa: S101 - rows that come as Spark's columns are never wrapped
        schema = self.edge.schema()
        return schema.append(pa.field(TURN_FIELD, pa.int32())) if self.routing.takes_turns else schema


@dataclass(frozen=True)
class Level:
    """The tasks of a level, and the ways of the rows in front of it.

    Attributes:
        tasks: The tasks.
        ports: The ways into these tasks.
        passing: The ways into tasks of later levels.
        in_order: Rows behind the shuffle are sorted by key and time, over all ports of a task.
    """

    tasks: tuple[TaskSpec, ...]
    ports: tuple[Port, ...]
    passing: tuple[Port, ...] = ()
    in_order: bool = False
    _index: dict[PortKey, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Number the ports: first those of this level, then those that pass."""
        all_ports = enumerate((*self.ports, *self.passing))
        object.__setattr__(self, "_index", {_key(port): index for index, port in all_ports})

    def without_functions(self) -> Level:
        """Return the level as those need it who only hand rows on: reading it imports nothing of the job's."""
        ports, passing = tuple(map(_without_functions, self.ports)), tuple(map(_without_functions, self.passing))
        return replace(self, tasks=tuple(map(_bare, self.tasks)), ports=ports, passing=passing)

    @property
    def is_single(self) -> bool:
        """Whether rows travel as they are."""
        return len(self.ports) == 1 and not self.passing

    @property
    def partitions(self) -> int:
        """The number of partitions behind the shuffle: all subtasks of all tasks."""
        return sum(task.parallelism for task in self.tasks)

    def first_partition(self, task: TaskSpec) -> int:
        """Return the partition of the first subtask of a task."""
        return sum(before.parallelism for before in self.tasks[: [other.uid for other in self.tasks].index(task.uid)])

    def owner_of(self, partition: int) -> tuple[TaskSpec, int]:
        """Return the task and the subtask that a partition belongs to."""
        for task in self.tasks:
            if partition < task.parallelism:
                return task, partition
            partition -= task.parallelism
        message = f"there is no partition {partition} behind the last task"
        raise ValueError(message)

    def index_of(self, edge: OutputSpec) -> int | None:
        """Return the index of the port that an edge leads to; None where its rows don't come this way."""
        return self._index.get((str(edge.target), edge.input_index, edge.routing))

    def index_of_port(self, port: Port) -> int:
        """Return the index that a port which passes through the level before has here."""
        return self._index[_key(port)]

    def port(self, index: int) -> Port:
        """Return a port of this level, or one whose rows pass."""
        return (*self.ports, *self.passing)[index]

    def schema(self) -> pa.Schema:
        """Return the schema of the rows in front of the shuffle."""
        if self.is_single:
            return self.ports[0].schema()
        structs = [
            pa.field(ROWS_FIELD.format(index), pa.struct(list(port.schema())))
            for index, port in enumerate((*self.ports, *self.passing))
        ]
        return pa.schema([pa.field(PORT_FIELD, pa.int32()), *structs])

    def wrap(self, index: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows of a port's schema in the level's schema."""
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
        """Yield the rows of a batch behind the shuffle, port by port.

        Rows for a keyed input of this level have their key groups with them, passing rows have the port's schema.
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
        """Yield rows that follow one another and are for one port: a key's elements come on both inputs of its task."""
        start = 0
        for index, count in _lengths(batch.column(PORT_FIELD).to_pylist()):
            yield index, batch.slice(start, count)
            start += count


def _lengths(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Yield each number with how often it follows itself."""
    for number, same in itertools.groupby(numbers):
        yield number, sum(1 for _ in same)


class LevelWriter:
    """Puts the rows that one Spark task makes into a level's schema.

    Args:
        level: The level they go to.
        partition: The partition of the Spark task; rows sent in turn begin at another subtask in each.
    """

    def __init__(self, level: Level, partition: int) -> None:
        self.level = level
        self._first = partition
        self._turns: dict[int, int] = {}

    def write(self, index: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows as their edge has made them, for the port `index`.

        Rows sent in turn are numbered here: the order in which a slot gives its output is the same each time it is asked,
        that behind a shuffle is not.
        """
        if self.level.port(index).routing.takes_turns:
            turn = self._turns.get(index, self._first)
            self._turns[index] = turn + rows.num_rows
            numbers = [number & _INT_MAX for number in range(turn, turn + rows.num_rows)]
            rows = rows.append_column(TURN_FIELD, pa.array(numbers, pa.int32()))
        return self.level.wrap(index, rows)


def level_index(level: Level | None, edge: OutputSpec) -> int:
    """Return the number of the port that an edge leads to.

    Raises:
        ControlError: The rows don't come this way.
    """
    index = None if level is None else level.index_of(edge)
    if index is None:
        message = f"There is no way from {edge.name!r} to its task."
        raise ControlError(message)
    return index


def levels_of(plan: JobPlan) -> list[Level]:
    """Return the levels of a plan with the ways into and through each."""
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
        Level(tuple(tasks), tuple(ways.values()), tuple(through.values()), in_order=plan.batch)
        for tasks, ways, through in zip(plan.levels, ports, passing, strict=True)
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
