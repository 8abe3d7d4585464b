"""A collection as Spark reads it, without Spark."""

import pyarrow as pa

from pystate.runtime.spark.spark_collection_source import _data_source


def read(elements, first, last):
    batch = pa.RecordBatch.from_arrays([pa.array(elements)], names=["value"])
    columns, rows = batch.schema.serialize().to_pybytes(), batch.serialize().to_pybytes()
    reader = _data_source("test", columns, rows, {"index": first}, {"index": last})({}).streamReader(None)
    (partition,) = reader.partitions(reader.initialOffset(), reader.latestOffset())
    return list(reader.read(partition))


def test_a_large_collection_goes_to_spark_in_pieces():
    elements = [f"{number:{1 << 20}}" for number in range(40)]
    batches = read(elements, 1, 39)
    assert [text for batch in batches for text in batch.column(0).to_pylist()] == elements[1:39]
    assert max(batch.num_rows for batch in batches) <= 8


def test_rows_larger_than_a_piece_go_one_by_one():
    assert [batch.num_rows for batch in read(["x" * (9 << 20)] * 2, 0, 2)] == [1, 1]
