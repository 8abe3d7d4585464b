"""A collection of the program as a source in slots: one split, read by one subtask, in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from pystate.common.type_info import TypeInformation
from pystate.connectors.generated.collection_offset import check_offset, collection_offset, parse_offset
from pystate.connectors.poll_size import PollSize
from pystate.connectors.read_by_spark import GoesOnAfterSpark
from pystate.connectors.source import (
    Boundedness,
    InputStatus,
    ReaderOutput,
    Source,
    SourceReader,
    SourceReaderContext,
    SourceSplit,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from pystate.connectors.splits_on_request import RequestingReader, SplitsOnRequest
from pystate.core.records.codec import KIND_COLUMN, RecordCodec

_MOST_AT_ONCE = 1000


class CollectionSplit(SourceSplit):
    """The elements from a given index on.

    Attributes:
        index: The number of elements read.
        checksum: The checksum of those elements.
    """

    def __init__(self, index: int, checksum: str) -> None:
        self.index = index
        self.checksum = checksum

    def split_id(self) -> str:
        """Return the id of the only split."""
        return "elements"

    def to_plain(self) -> list[Any]:
        """Return the position in plain form."""
        return [self.index, self.checksum]


class CollectionSource(Source[Any, CollectionSplit], GoesOnAfterSpark):
    """The elements of a collection. They travel to the slots as columns of their type, and come out as such elements do.

    Args:
        elements: The collection.
        type_info: Of the elements; None for untyped ones.
        name: Of the source, for errors.

    Raises:
        RecordError: An element isn't of the type.
    """

    def __init__(self, elements: Sequence[Any], type_info: TypeInformation | None, name: str) -> None:
        codec = RecordCodec(type_info, name, kinds=True)
        prepared = list(elements) if codec.prepare is None else [codec.prepare(element) for element in elements]
        columns, schema = codec.encode(prepared), codec.schema
        if (kinds := codec.kinds_of(prepared)) is not None:
            columns, schema = [*columns, kinds], schema.append(KIND_COLUMN)
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        self._elements = list(elements)
        self._type = type_info
        self._name = name
        self._schema = schema.serialize().to_pybytes()
        self._rows = batch.serialize().to_pybytes()
        self._begin = CollectionSplit(**self.offset(0))

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED."""
        return Boundedness.BOUNDED

    def go_on_after(self, offset: str, log: Mapping[str, bytes]) -> None:
        """Start after the elements that Spark has read."""
        del log
        self._begin = self.restore_split(parse_offset(offset, self._name))

    def begin_anew(self) -> None:
        """Start with the first element."""
        self._begin = CollectionSplit(**self.offset(0))

    def create_enumerator(self, context: SplitEnumeratorContext[CollectionSplit]) -> SplitEnumerator[CollectionSplit]:
        """Return an enumerator that assigns all elements to the first reader that requests a split."""
        return SplitsOnRequest(context, [CollectionSplit(self._begin.index, self._begin.checksum)])

    def restore_enumerator(
        self, context: SplitEnumeratorContext[CollectionSplit], checkpoint: Any
    ) -> SplitEnumerator[CollectionSplit]:
        """Return an enumerator that assigns the rest, if unassigned, to the first reader that requests a split."""
        return SplitsOnRequest(context, [self.restore_split(plain) for plain in checkpoint])

    def create_reader(self, context: SourceReaderContext) -> SourceReader[Any, CollectionSplit]:
        """Return the reader."""
        batch = pa.ipc.read_record_batch(pa.py_buffer(self._rows), pa.ipc.read_schema(pa.py_buffer(self._schema)))
        return _CollectionReader(self, context, batch, RecordCodec(self._type, self._name))

    def restore_split(self, plain: Any) -> CollectionSplit:
        """Return the split of the remaining elements.

        Raises:
            RestoreError: The part of the collection that was read has changed.
        """
        index, checksum = plain
        check_offset(self._elements, int(index), str(checksum), self._name)
        return CollectionSplit(int(index), str(checksum))

    def offset(self, count: int) -> dict[str, Any]:
        """Return the offset after `count` elements."""
        return collection_offset(self._elements, count)


class _CollectionReader(RequestingReader[Any, CollectionSplit]):
    def __init__(
        self, source: CollectionSource, context: SourceReaderContext, batch: pa.RecordBatch, codec: RecordCodec
    ) -> None:
        super().__init__(context)
        self._source = source
        self._batch = batch
        self._codec = codec
        self._size = PollSize(_MOST_AT_ONCE)

    def poll_next(self, output: ReaderOutput[Any]) -> InputStatus:
        """Emit the next elements."""
        if not self._splits:
            return self._without_split()
        split = self._splits[0]
        rows = self._batch.slice(split.index, min(self._size.count, output.room()))
        self._size.begin()
        for element in self._codec.decode(rows):
            output.collect(element)
        self._size.end(rows.num_rows)
        split.index += rows.num_rows
        if split.index >= self._batch.num_rows:
            return InputStatus.END_OF_INPUT
        return InputStatus.MORE_AVAILABLE

    def snapshot_state(self, checkpoint_id: int) -> list[CollectionSplit]:
        """Return the split at the current position."""
        del checkpoint_id
        return [CollectionSplit(**self._source.offset(split.index)) for split in self._splits]
