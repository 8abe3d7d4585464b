"""Buffers that collect elements into record batches, bounded by rows and by bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from pystate.common.user_code.inlined_code import Code, Write, inlined
from pystate.core.records.codec import KIND_COLUMN, RecordCodec
from pystate.core.records.prepared_code import WritePrepare, WriteSize, write_call, write_size
from pystate.core.records.printed import line_of
from pystate.core.records.sizes import check_row, size_of
from pystate.runtime.plan.task_output import KindsPlace, OutputKind, OutputSpec
from pystate.runtime.slot.event_time.chain_time import ChainTime

BYTES_PER_BATCH = 8 << 20
"""The size of a record batch: a task holds its elements, their columns and a copy of those at once."""

ROW_BYTES = 1 << 10
"""The size of a row in addition to its bytes: a batch of small rows has at most 8,192 rows, and above a few thousand the
cost per element no longer falls."""

_ROWS_PER_BATCH = BYTES_PER_BATCH // ROW_BYTES


class OutputBuffer:
    """Collects the elements of one output and passes on record batches.

    Mutable values (such as a list that the function may extend later) are copied when they are appended. A row larger than
    the size limit is a batch of its own.

    Args:
        spec: The output's specification.
        sink: Called with each record batch.
        line_prefix: For print: the prefix of each line.
        time: The chain's time; provides the timestamps of elements if the output includes them.

    Attributes:
        append: Adds one element; raises RecordError if no batch can hold it.
        room: The remaining bytes of the current batch.
    """

    def __init__(
        self,
        spec: OutputSpec,
        sink: Callable[[OutputSpec, pa.RecordBatch], None],
        line_prefix: str = "",
        time: ChainTime | None = None,
    ) -> None:
        self.spec = spec
        self._line_prefix = line_prefix
        self._sink = sink
        self._schema = spec.schema()
        self._codec = RecordCodec(spec.type_info, spec.name, kinds=spec.kinds is not KindsPlace.NOWHERE)
        self._elements: list[Any] = []
        self._keys: list[Any] = []
        self._times: list[int | None] = []
        self.room = BYTES_PER_BATCH
        self.append: Callable[[Any], None] = self._make_append()
        if spec.timestamped and time is not None:
            self.append = self._with_times(self.append, time)

    def flush(self) -> None:
        """Pass on the collected elements."""
        if not self._elements:
            return
        spec = self.spec
        if spec.kind is OutputKind.PRINT:
            arrays = [_lines(self._elements)]
        else:
            arrays = self._codec.encode(self._elements)
            if spec.key is not None and spec.selector is not None:
                arrays.append(spec.key.encode(self._keys, spec.name))
        if spec.timestamped:
            arrays.append(pa.array(self._times[: len(self._elements)], pa.int64()))
            del self._times[: len(self._elements)]
        schema = self._schema
        if spec.kinds is not KindsPlace.NOWHERE:
            schema = self._append_kinds(arrays, self._codec.kinds_of(self._elements))
        self._elements.clear()
        self._keys.clear()
        self._sink(spec, pa.RecordBatch.from_arrays(arrays, schema=schema))

    @property
    def takes_columns(self) -> bool:
        """Whether columnar elements can be passed on unchanged."""
        spec = self.spec
        return spec.kind is not OutputKind.PRINT and (spec.key is None or spec.selector is None)

    def append_columns(self, columns: list[pa.Array], timestamp: int | None) -> None:
        """Pass on columnar elements, after those collected so far.

        Args:
            columns: As `RecordCodec.encode` makes them.
            timestamp: The timestamp of all elements, ms since 1970; None for none.
        """
        self.flush()
        count = len(columns[0])
        if self.spec.timestamped:
            columns = [*columns, pa.array([timestamp] * count, pa.int64())]
        if self.spec.kinds is KindsPlace.COLUMN:
            columns = [*columns, pa.nulls(count, KIND_COLUMN.type)]
        batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        size = batch.nbytes + count * ROW_BYTES
        rows = max(1, count * BYTES_PER_BATCH // size) if size > BYTES_PER_BATCH else count
        for start in range(0, count, rows):
            self._sink(self.spec, batch.slice(start, rows))

    def clear(self) -> None:
        """Drop the collected elements."""
        self._elements.clear()
        self._keys.clear()
        self._times.clear()

    def _append_kinds(self, arrays: list[pa.Array], kinds: pa.Array | None) -> pa.Schema:
        """Append the column of kinds where there has to be one; return the schema of the batch."""
        if self.spec.kinds is KindsPlace.COLUMN:
            arrays.append(pa.nulls(len(arrays[0]), KIND_COLUMN.type) if kinds is None else kinds)
            return self._schema
        if kinds is None:
            return self._schema
        arrays.append(kinds)
        return self._schema.append(KIND_COLUMN)

    def _with_times(self, append: Callable[[Any], None], time: ChainTime) -> Callable[[Any], None]:
        def write(code: Code, element: str) -> list[str]:
            times, now = code.bind(self._times, "times"), code.bind(time, "time")
            return [f"{times}.append({now}.timestamp)", *code.apply(append, element)]

        return inlined(write)

    def _end_batch(self, size: int) -> None:
        """Pass on a full batch whose last row has `size` bytes."""
        if size >= BYTES_PER_BATCH:
            check_row((self._elements[-1], self._keys[-1:]), size, self.spec.name)
            if len(self._elements) > 1:  # together they might exceed the size of a column
                element, key = self._elements.pop(), self._keys[-1:]
                del self._keys[-1:]
                self.flush()
                self._elements.append(element)
                self._keys += key
        self.flush()

    def _make_append(self) -> Callable[[Any], None]:
        spec, codec = self.spec, self._codec
        prepare, size = codec.write_prepare, codec.write_size
        if spec.kind is OutputKind.PRINT:
            prefix, line = self._line_prefix, line_of(spec.type_info, spec.name)
            text = line if not prefix else lambda element: f"{prefix}{line(element)}"
            prepare, size = write_call(text), write_size(len)
        if spec.key is not None and spec.selector is not None:
            return inlined(self._write_keyed(prepare, size, spec.selector))
        return inlined(self._write_plain(prepare, size))

    def _write_plain(self, prepare: WritePrepare | None, size: WriteSize | None) -> Write:
        def write(code: Code, element: str) -> list[str]:
            elements = code.bind(self._elements, "elements")
            if prepare is None and size is None:
                full = f"if len({elements}) >= {_ROWS_PER_BATCH}:"
                return [f"{elements}.append({element})", full, f"    {code.bind(self._end_batch, 'end_batch')}(0)"]
            lines, prepared = ([], element) if prepare is None else prepare(code, element)
            return [*lines, f"{elements}.append({prepared})", *self._write_bound(code, [(prepared, size)])]

        return write

    def _write_keyed(self, prepare: WritePrepare | None, size: WriteSize | None, selector: Callable[[Any], Any]) -> Write:
        key_column = self.spec.key
        assert key_column is not None  # noqa: S101 - the caller has checked
        prepare_key, key_size = key_column.preparer(), key_column.size

        def write(code: Code, element: str) -> list[str]:
            key = code.name("key")
            lines = [f"{key} = {code.bind(selector, 'selector')}({element})"]
            if prepare_key is not None:
                lines.append(f"{key} = {code.bind(prepare_key, 'prepare_key')}({key})")
            more, prepared = ([], element) if prepare is None else prepare(code, element)
            keys, elements = code.bind(self._keys, "keys"), code.bind(self._elements, "elements")
            sizes = [(prepared, size), (key, None if key_size is None else write_size(key_size))]
            return [
                *lines,
                *more,
                f"{keys}.append({key})",
                f"{elements}.append({prepared})",
                *self._write_bound(code, sizes),
            ]

        return write

    def _write_bound(self, code: Code, parts: Sequence[tuple[str, WriteSize | None]]) -> list[str]:
        """Return the lines of code that count the size of an appended element, and end a full batch.

        A `room` reduced by an earlier epoch only makes the next batch smaller.
        """
        used, buffer = code.name("used"), code.bind(self, "buffer")
        exact = " + ".join(size(code, value) for value, size in parts if size is not None)
        lines = [f"{used} = {exact or 0}"]
        if exact:
            of_any = code.bind(size_of, "size_of")
            about = " + ".join(f"{of_any}({value})" for value, _ in parts)
            lines = ["try:", f"    {lines[0]}", "except TypeError:", f"    {used} = {about}"]  # a value Arrow rejects
        return [
            *lines,
            f"{buffer}.room -= {used} + {ROW_BYTES}",
            f"if {buffer}.room <= 0:",
            f"    {buffer}.room = {BYTES_PER_BATCH}",
            f"    {code.bind(self._end_batch, 'end_batch')}({used})",
        ]


def _lines(lines: list[str]) -> pa.Array:
    """Return printed lines as a column; what UTF-8 can't encode is escaped as in Python."""
    try:
        return pa.array(lines, pa.string())
    except UnicodeEncodeError:
        return pa.array([line.encode("utf-8", "backslashreplace").decode() for line in lines], pa.string())
