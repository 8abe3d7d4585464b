"""The outputs of a task: edges to other tasks and sinks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pyarrow as pa

from pystate.common.type_info import TypeInformation, TypeKind
from pystate.common.user_code.taken import SendsTaken, Taken
from pystate.core.records.codec import KIND_COLUMN, TIMESTAMP_FIELD, RecordCodec
from pystate.core.records.key_column import KeyColumn

LINE_FIELD = "line"

WATERMARK_SCHEMA = pa.schema(
    [pa.field("channel", pa.string()), pa.field("watermark", pa.int64()), pa.field("idle", pa.bool_())]
)
"""The progress of a channel: its name, event time in ms since 1970, and whether it is idle."""


class Routing(Enum):
    """How rows are routed to the subtasks of the next task."""

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
        """Whether rows are numbered, so that a task that is rerun sends them to the same subtasks again."""
        return self in (Routing.REBALANCE, Routing.SHUFFLE)


class OutputKind(Enum):
    """The kind of an output."""

    EDGE = "edge"  # through Spark's shuffle to the next task
    PRINT = "print"  # to the driver, as lines of text
    FRAME = "frame"  # to a function of the job, as a DataFrame


class KindsPlace(Enum):
    """Where the batches of an output have the kinds of rows (`RowKind`)."""

    NOWHERE = "nowhere"  # rows of other kinds than INSERT are refused
    COLUMN = "column"  # in a column of all batches
    WHERE_USED = "where used"  # in a column of those batches that have a row of another kind than INSERT


@dataclass
class OutputSpec(SendsTaken):
    """One output of a task.

    Attributes:
        tag: Its number within the task.
        name: The displayed name.
        type_info: The type of the elements, None if they are untyped.
        key: For an edge: the key column; for one with a partitioner, the column with the number of the subtask.
        selector: For an edge keyed by a function: that function; for one with a partitioner, the function that selects the
            subtask.
        identifier: For print: the author's prefix of each line.
        target: For an edge: the uid of the task it leads to.
        input_index: For an edge: which input of that task.
        routing: For an edge: how rows are routed to subtasks.
        timestamped: For an edge: whether rows have timestamps, and watermarks are sent along the edge (`watermarks()`).
        assigners: For an edge with timestamps: the uids of the chain's assigners whose lowest watermark it carries; None
            among them for the watermark of the task.
        kinds: Where its batches have the kinds of declared rows; rows without a declared type hold theirs.
        taken: The selector as captured from the program.
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
    kinds: KindsPlace = KindsPlace.NOWHERE
    taken: dict[str, Taken] = field(default_factory=dict, repr=False)

    def watermarks(self) -> OutputSpec:
        """Return the output for this edge's watermarks, with a number below 0."""
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
        if self.kinds is KindsPlace.COLUMN:
            fields.append(KIND_COLUMN)
        return pa.schema(fields)

    def place_kinds(self, place: KindsPlace) -> None:
        """Have kinds in the batches; only declared rows need a place for them."""
        if self.type_info is not None and self.type_info.kind is TypeKind.ROW and self.type_info.elements:
            self.kinds = place


def with_watermarks(edges: Iterable[OutputSpec]) -> Iterator[OutputSpec]:
    """Yield edges, each with timestamps followed by the output of its watermarks."""
    for edge in edges:
        yield edge
        if edge.timestamped:
            yield edge.watermarks()


def line_prefix(identifier: str | None, subtask: int, parallelism: int) -> str:
    """Return the prefix of a printed line, as in Flink's print sink: `identifier:subtask> `, from 1."""
    number = str(subtask + 1) if parallelism > 1 else ""
    mark = ":".join(part for part in (identifier or "", number) if part)
    return f"{mark}> " if mark else ""
