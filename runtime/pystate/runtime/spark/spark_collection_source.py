"""A collection of the program as a Spark streaming source.

The elements are part of the program, so every driver of the job can read them again, on any machine. Spark's offset contains
the number of elements read and their checksum: elements read by a savepoint must still be in the collection.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

from pystate.connectors.generated.collection_offset import check_offset, collection_offset, parse_offset
from pystate.core.api.transformations import SourceTransformation
from pystate.core.records.codec import RecordCodec
from pystate.runtime.slot.output_buffer import BYTES_PER_BATCH

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_NUMBERS = itertools.count()


def collection_frame(spark: SparkSession, source: SourceTransformation) -> DataFrame:
    """Return the streaming DataFrame of a collection.

    Raises:
        RecordError: An element isn't of the declared type.
    """
    assert source.collection is not None  # noqa: S101 - the caller has looked
    codec = RecordCodec(source.output_type, source.name)
    elements = source.collection if codec.prepare is None else [codec.prepare(element) for element in source.collection]
    batch = pa.RecordBatch.from_arrays(codec.encode(list(elements)), schema=codec.schema)
    name = f"pystate_collection_{next(_NUMBERS)}"
    # the class is created here, so that it is sent to Spark's workers with the elements in it
    spark.dataSource.register(
        _data_source(
            name,
            codec.schema.serialize().to_pybytes(),
            batch.serialize().to_pybytes(),
            collection_offset(source.collection, 0),
            collection_offset(source.collection, len(source.collection)),
        )
    )
    return spark.readStream.format(name).load()


def check_collection_offset(source: SourceTransformation, offset: str) -> None:
    """Reject a collection that doesn't begin with the elements that were read.

    Args:
        source: The source in the present program.
        offset: Spark's offset of what was read.

    Raises:
        RestoreError: The collection is shorter, or differs in what was read.
    """
    assert source.collection is not None  # noqa: S101 - the caller has looked
    count, checksum = parse_offset(offset, source.name)
    check_offset(source.collection, count, checksum, source.name)


def is_read_whole(source: SourceTransformation, offset: str) -> bool:
    """Return whether all elements of a collection have been read at Spark's offset."""
    assert source.collection is not None  # noqa: S101 - the caller has looked
    return parse_offset(offset, source.name)[0] == len(source.collection)


def _data_source(name: str, columns: bytes, rows: bytes, start: dict[str, Any], end: dict[str, Any]) -> type[DataSource]:
    class CollectionReader(DataSourceStreamReader):
        def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
            return start

        def latestOffset(self, *_: Any) -> dict[str, Any]:  # noqa: N802 - Spark's name
            return end

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
            return [InputPartition((start["index"], end["index"]))]  # one, so that the elements stay in order

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            first, last = partition.value
            batch = pa.ipc.read_record_batch(pa.py_buffer(rows), pa.ipc.read_schema(pa.py_buffer(columns)))
            at_once = max(1, batch.num_rows * BYTES_PER_BATCH // max(1, batch.nbytes))
            for start in range(first, last, at_once):
                yield batch.slice(start, min(at_once, last - start))

    class CollectionSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> StructType:
            return from_arrow_schema(pa.ipc.read_schema(pa.py_buffer(columns)))

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
            del schema
            return CollectionReader()

    return CollectionSource
