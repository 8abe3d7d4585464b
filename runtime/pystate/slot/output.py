"""What leaves a task: edges to other tasks and sinks, and the buffers that turn elements into record batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pyarrow as pa

from pystate.common.type_info import TypeInformation
from pystate.slot.records import KeyColumn, RecordCodec

ROWS_PER_BATCH = 8192
"""Elements collected before they become a record batch; past a few thousand the cost per element no longer falls."""

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


class OutputBuffer:
    """Collects the elements of one output and hands on record batches.

    What could still change (a list that the function goes on to fill) is copied when it is appended.

    Args:
        spec: The output.
        sink: Called with each record batch.
        line_prefix: For print: what each line begins with.

    Attributes:
        append: Adds one element.
    """

    def __init__(self, spec: OutputSpec, sink: Callable[[OutputSpec, pa.RecordBatch], None], line_prefix: str = "") -> None:
        self.spec = spec
        self._line_prefix = line_prefix
        self._sink = sink
        self._schema = spec.schema()
        self._codec = RecordCodec(spec.type_info, spec.name)
        self._elements: list[Any] = []
        self._keys: list[Any] = []
        self.append: Callable[[Any], None] = self._make_append()

    def flush(self) -> None:
        """Hand on what has been collected."""
        if not self._elements:
            return
        spec = self.spec
        if spec.kind is OutputKind.PRINT:
            arrays = [pa.array(self._elements, pa.string())]
        else:
            arrays = self._codec.encode(self._elements)
            if spec.key is not None and spec.selector is not None:
                arrays.append(spec.key.encode(self._keys, spec.name))
        self.clear()
        self._sink(spec, pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def clear(self) -> None:
        """Drop what has been collected."""
        self._elements.clear()
        self._keys.clear()

    def _make_append(self) -> Callable[[Any], None]:
        elements, keys, flush, spec = self._elements, self._keys, self.flush, self.spec
        prefix = self._line_prefix
        prepare = self._codec.prepare or _same
        if spec.kind is OutputKind.PRINT:
            prepare = lambda element: f"{prefix}{element}"  # noqa: E731 - one of two values of a variable
        if spec.key is None or spec.selector is None:

            def append(element: Any) -> None:
                elements.append(prepare(element))
                if len(elements) >= ROWS_PER_BATCH:
                    flush()

            return append
        selector, prepare_key = spec.selector, spec.key.preparer() or _same

        def append_keyed(element: Any) -> None:
            keys.append(prepare_key(selector(element)))
            elements.append(prepare(element))
            if len(elements) >= ROWS_PER_BATCH:
                flush()

        return append_keyed


def _same(value: Any) -> Any:
    return value
