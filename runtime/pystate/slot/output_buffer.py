"""The buffers that turn elements into record batches, bounded by rows and by bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from pystate.plan.output import OutputKind, OutputSpec
from pystate.records.codec import RecordCodec
from pystate.records.printed import line_of
from pystate.records.sizes import Measure, check_row, size_of
from pystate.slot.chain_time import ChainTime

BYTES_PER_BATCH = 8 << 20
"""What a record batch holds before it is handed on: a task holds the elements, their columns and a copy of those at once."""

ROW_BYTES = 1 << 10
"""What a row counts beside its own bytes: a batch of small rows has 8,192 at most, and past a few thousand the cost per
element no longer falls."""

_ROWS_PER_BATCH = BYTES_PER_BATCH // ROW_BYTES

Prepare = Callable[[Any], Any]


class OutputBuffer:
    """Collects the elements of one output and hands on record batches.

    What could still change (a list that the function goes on to fill) is copied when it is appended. A row that is larger
    than a batch is a batch of its own.

    Args:
        spec: The output.
        sink: Called with each record batch.
        line_prefix: For print: what each line begins with.
        time: Of the chain; has the times of elements where the output carries them.

    Attributes:
        append: Adds one element; raises RecordError where no batch can hold it.
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
        self._codec = RecordCodec(spec.type_info, spec.name)
        self._elements: list[Any] = []
        self._keys: list[Any] = []
        self._times: list[int | None] = []
        self.append: Callable[[Any], None] = self._make_append()
        if spec.timestamped and time is not None:
            self.append = self._with_times(self.append, time)

    def flush(self) -> None:
        """Hand on what has been collected."""
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
        self._elements.clear()
        self._keys.clear()
        self._sink(spec, pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    @property
    def takes_columns(self) -> bool:
        """Whether elements that are columns already can go on as they are."""
        spec = self.spec
        return spec.kind is not OutputKind.PRINT and (spec.key is None or spec.selector is None)

    def append_columns(self, columns: list[pa.Array], timestamp: int | None) -> None:
        """Hand on elements that are columns already, behind what has been collected.

        Args:
            columns: As `RecordCodec.encode` makes them.
            timestamp: Of all elements, ms since 1970; None for none.
        """
        self.flush()
        count = len(columns[0])
        if self.spec.timestamped:
            columns = [*columns, pa.array([timestamp] * count, pa.int64())]
        batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        size = batch.nbytes + count * ROW_BYTES
        rows = max(1, count * BYTES_PER_BATCH // size) if size > BYTES_PER_BATCH else count
        for start in range(0, count, rows):
            self._sink(self.spec, batch.slice(start, rows))

    def clear(self) -> None:
        """Drop what has been collected."""
        self._elements.clear()
        self._keys.clear()
        self._times.clear()

    def _with_times(self, append: Callable[[Any], None], time: ChainTime) -> Callable[[Any], None]:
        times = self._times

        def append_with_time(element: Any) -> None:
            times.append(time.timestamp)
            append(element)

        return append_with_time

    def _end_batch(self, size: int) -> None:
        """Hand on a batch that is full, of which the last row has `size` bytes."""
        if size >= BYTES_PER_BATCH:
            check_row((self._elements[-1], self._keys[-1:]), size, self.spec.name)
            if len(self._elements) > 1:  # together they might be more than a column can hold
                element, key = self._elements.pop(), self._keys[-1:]
                del self._keys[-1:]
                self.flush()
                self._elements.append(element)
                self._keys += key
        self.flush()

    def _make_append(self) -> Callable[[Any], None]:
        prepare, size = self._codec.prepare, self._codec.size
        if self.spec.kind is OutputKind.PRINT:
            prefix, line = self._line_prefix, line_of(self.spec.type_info, self.spec.name)
            prepare, size = (line if not prefix else lambda element: f"{prefix}{line(element)}"), len
        if self.spec.key is not None and self.spec.selector is not None:
            return self._append_keyed(prepare or _same, size or _nothing, self.spec.selector)
        if prepare is None and size is None:
            return self._append_small()
        return self._append_plain(prepare or _same, size or _nothing)

    def _append_small(self) -> Callable[[Any], None]:
        elements, end_batch = self._elements, self._end_batch

        def append(element: Any) -> None:
            elements.append(element)
            if len(elements) >= _ROWS_PER_BATCH:
                end_batch(0)

        return append

    def _append_plain(self, prepare: Prepare, size: Measure) -> Callable[[Any], None]:
        elements, end_batch = self._elements, self._end_batch
        room = BYTES_PER_BATCH  # what is left of it when an epoch ends only makes the next batch a smaller one

        def append(element: Any) -> None:
            nonlocal room
            prepared = prepare(element)
            elements.append(prepared)
            try:
                used = size(prepared)
            except TypeError:  # a null, or what Arrow will refuse
                used = size_of(prepared)
            room -= used + ROW_BYTES
            if room <= 0:
                room = BYTES_PER_BATCH
                end_batch(used)

        return append

    def _append_keyed(self, prepare: Prepare, size: Measure, selector: Callable[[Any], Any]) -> Callable[[Any], None]:
        elements, keys, end_batch, key_column = self._elements, self._keys, self._end_batch, self.spec.key
        assert key_column is not None  # noqa: S101 - the caller has looked
        prepare_key, key_size = key_column.preparer() or _same, key_column.size or _nothing
        room = BYTES_PER_BATCH

        def append(element: Any) -> None:
            nonlocal room
            key = prepare_key(selector(element))
            prepared = prepare(element)
            keys.append(key)
            elements.append(prepared)
            try:
                used = size(prepared) + key_size(key)
            except TypeError:
                used = size_of(prepared) + size_of(key)
            room -= used + ROW_BYTES
            if room <= 0:
                room = BYTES_PER_BATCH
                end_batch(used)

        return append


def _same(value: Any) -> Any:
    return value


def _nothing(_value: Any) -> int:
    return 0


def _lines(lines: list[str]) -> pa.Array:
    """Return printed lines as a column; people read them, so what UTF-8 has no bytes for is shown as Python writes it."""
    try:
        return pa.array(lines, pa.string())
    except UnicodeEncodeError:
        return pa.array([line.encode("utf-8", "backslashreplace").decode() for line in lines], pa.string())
