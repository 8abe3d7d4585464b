"""The outputs of a task: edges to other tasks and sinks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pyarrow as pa

from pystate.common.type_info import TypeInformation
from pystate.records.codec import RecordCodec
from pystate.records.key_column import KeyColumn

LINE_FIELD = "line"


class Routing(Enum):
    """Which subtask of the next task gets a row."""

    KEY = "key"  # the owner of its key group
    FORWARD = "forward"  # the one of its partition, so that rows that came in order stay in order
    REBALANCE = "rebalance"  # the next one in turn
    SHUFFLE = "shuffle"  # any one
    GLOBAL = "global"  # the first one
    BROADCAST = "broadcast"  # every one

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
class OutputSpec:
    """One output of a task.

    Attributes:
        tag: Its number within the task.
        name: What people see.
        type_info: The type of the elements, None where they are untyped.
        key: For an edge: where the key comes from.
        selector: For an edge keyed by a function: that function.
        identifier: For print: the author's mark in front of each line.
        target: For an edge: the uid of the task it leads to.
        input_index: For an edge: which input of that task.
        routing: For an edge: which subtask gets a row.
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

    def schema(self) -> pa.Schema:
        """Return the schema of the output's batches."""
        if self.kind is OutputKind.PRINT:
            return pa.schema([pa.field(LINE_FIELD, pa.string())])
        fields = list(RecordCodec(self.type_info, self.name).schema)
        if self.key is not None and self.selector is not None:
            fields.append(self.key.field())
        return pa.schema(fields)


def line_prefix(identifier: str | None, subtask: int, parallelism: int) -> str:
    """Return what a printed line begins with, as Flink's print sink has it: `identifier:subtask> `, from 1."""
    number = str(subtask + 1) if parallelism > 1 else ""
    mark = ":".join(part for part in (identifier or "", number) if part)
    return f"{mark}> " if mark else ""
