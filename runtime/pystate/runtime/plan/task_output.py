"""The outputs of a task: edges to other tasks and sinks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pyarrow as pa

from pystate.common.type_info import TypeInformation
from pystate.common.user_code.taken import SendsTaken, Taken
from pystate.core.records.codec import TIMESTAMP_FIELD, RecordCodec
from pystate.core.records.key_column import KeyColumn

LINE_FIELD = "line"

WATERMARK_SCHEMA = pa.schema(
    [pa.field("channel", pa.string()), pa.field("watermark", pa.int64()), pa.field("idle", pa.bool_())]
)
"""What says how far a channel is: its name, event time in ms since 1970, and whether nobody needs to wait for it."""


class Routing(Enum):
    """Which subtask of the next task gets a row."""

    KEY = "key"  # the owner of its key group
    FORWARD = "forward"  # the one of its partition, so that rows that came in order stay in order
    REBALANCE = "rebalance"  # the next one in turn
    SHUFFLE = "shuffle"  # any one
    GLOBAL = "global"  # the first one
    BROADCAST = "broadcast"  # every one
    CUSTOM = "custom"  # the one that a function of the program names
    WATERMARK = "watermark"  # every one; the rows are watermarks

    @property
    def takes_turns(self) -> bool:
        """Whether rows are numbered on their way, so that a task that is run again sends them where it did before."""
        return self in (Routing.REBALANCE, Routing.SHUFFLE)


class OutputKind(Enum):
    """Where elements go."""

    EDGE = "edge"  # through Spark's shuffle to the next task
    PRINT = "print"  # to the driver, as lines of text
    FRAME = "frame"  # to a function of the job, as a DataFrame


@dataclass
class OutputSpec(SendsTaken):
    """One output of a task.

    Attributes:
        tag: Its number within the task.
        name: What people see.
        type_info: The type of the elements, None if they are untyped.
        key: For an edge: where the key comes from; for one with a partitioner, where the number of the subtask stands.
        selector: For an edge keyed by a function: that function; for one with a partitioner, what names the subtask.
        identifier: For print: the author's mark in front of each line.
        target: For an edge: the uid of the task it leads to.
        input_index: For an edge: which input of that task.
        routing: For an edge: which subtask gets a row.
        timestamped: For an edge: rows have the time of their element, and watermarks go the same way (`watermarks()`).
        assigners: For an edge with times: the uids of the assigners of the chain whose watermark it carries, the lowest of
            several; None among them for the watermark of the task.
        taken: The selector as the program handed it over.
    """

    tag: int
    kind: OutputKind
    name: str
    type_info: TypeInformation | None = None
    key: KeyColumn | None = None
    selector: Callable[[Any], Any] | None = None
    identifier: str | None = None
    target: str | None = None
    input_index: int = 0
    routing: Routing = Routing.FORWARD
    timestamped: bool = False
    assigners: frozenset[str | None] = frozenset({None})
    taken: dict[str, Taken] = field(default_factory=dict, repr=False)

    def watermarks(self) -> OutputSpec:
        """Return the output beside this edge that carries its watermarks, with a number below 0."""
        name, way = f"watermarks {self.name}", Routing.WATERMARK
        return OutputSpec(-1 - self.tag, self.kind, name, target=self.target, input_index=self.input_index, routing=way)

    def schema(self) -> pa.Schema:
        """Return the schema of the output's batches."""
        if self.kind is OutputKind.PRINT:
            return pa.schema([pa.field(LINE_FIELD, pa.string())])
        if self.routing is Routing.WATERMARK:
            return WATERMARK_SCHEMA
        fields = list(RecordCodec(self.type_info, self.name).schema)
        if self.key is not None and self.selector is not None:
            fields.append(self.key.field())
        if self.timestamped:
            fields.append(pa.field(TIMESTAMP_FIELD, pa.int64()))
        return pa.schema(fields)


def with_watermarks(edges: Iterable[OutputSpec]) -> Iterator[OutputSpec]:
    """Yield edges, and beside each that has times the one of its watermarks."""
    for edge in edges:
        yield edge
        if edge.timestamped:
            yield edge.watermarks()


def line_prefix(identifier: str | None, subtask: int, parallelism: int) -> str:
    """Return what a printed line begins with, as Flink's print sink has it: `identifier:subtask> `, from 1."""
    number = str(subtask + 1) if parallelism > 1 else ""
    mark = ":".join(part for part in (identifier or "", number) if part)
    return f"{mark}> " if mark else ""
