"""Few rows reach a function as many do: the same rows, types and bound of partitions, without a stage of Python workers."""

from __future__ import annotations

import datetime
import decimal
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from pystate.runtime.engines.micro_batch.slot.prepared_epoch import PreparedEpoch
from pystate.runtime.engines.micro_batch.spark import output_frame
from pystate.runtime.engines.micro_batch.spark.output_frame import local_frame

UTC = datetime.datetime(2026, 11, 23, 12, 0, 1, 234567, datetime.timezone.utc)
NOW = UTC.replace(tzinfo=None)
COLUMNS: dict[str, tuple[Any, pa.DataType]] = {
    "truth": (True, pa.bool_()),
    "byte": (-7, pa.int8()),
    "short": (300, pa.int16()),
    "int": (70_000, pa.int32()),
    "long": (1 << 40, pa.int64()),
    "float": (0.5, pa.float32()),
    "double": (0.1, pa.float64()),
    "text": ("ä€😀", pa.string()),
    "bytes": (b"\0\xff", pa.binary()),
    "decimal": (decimal.Decimal("12.345"), pa.decimal128(10, 3)),
    "date": (NOW.date(), pa.date32()),
    "instant": (UTC, pa.timestamp("us", tz="UTC")),
    "local": (NOW, pa.timestamp("us")),
    "list": ([1, None], pa.list_(pa.int64())),
    "map": ([("a", UTC)], pa.map_(pa.string(), pa.timestamp("us", tz="UTC"))),
    "struct": ({"x": 1, "y": [NOW.date()]}, pa.struct([("x", pa.int32()), ("y", pa.list_(pa.date32()))])),
}


@pytest.mark.parametrize("count", [0, 1, 50])
def test_rows_and_types_are_those_of_a_python_stage(spark, count):
    table = pa.table(
        {name: pa.array(([value, None] * count)[:count], kind) for name, (value, kind) in COLUMNS.items()},
        schema=pa.schema([(name, kind) for name, (_, kind) in COLUMNS.items()]),
    )
    batches = table.to_batches()
    staged = spark.range(0, 1, 1, 1).mapInArrow(lambda _: iter(batches), from_arrow_schema(table.schema))

    found = local_frame(spark, table, 2)

    assert found.schema == staged.schema
    assert sorted(map(str, found.collect())) == sorted(map(str, staged.collect()))
    assert found.rdd.getNumPartitions() <= 2


class Slots:
    """The kept output of two subtasks."""

    def __init__(self, monkeypatch, batch: pa.RecordBatch) -> None:
        self.fetched = 0
        self._batch = batch
        monkeypatch.setattr(output_frame, "fetch_output", self._fetch)
        monkeypatch.setattr(output_frame, "fetch_stage", lambda *_: lambda batches: (batch for _ in batches))
        output = SimpleNamespace(schema=lambda: batch.schema)
        task = SimpleNamespace(uid="count", parallelism=2, output=lambda tag: output)
        self.plan: Any = SimpleNamespace(task=lambda uid: task)
        self.sink: Any = SimpleNamespace(task_uid="count", tag=0)

    def _fetch(self, *_):
        self.fetched += 1
        yield self._batch

    def frame(self, spark, rows):
        slots: Any = None
        prepared = {
            ("count", 0): PreparedEpoch(7, 1, 1, rows, rows, rows - 1),
            ("count", 1): PreparedEpoch(7, 1, 2, 0, 0, 1),
            ("another", 0): PreparedEpoch(7, 1, 3, 5_000, 5_000, 5_000),
        }
        return output_frame.output_frame(spark, self.plan, self.sink, slots, 7, prepared)


def plan_of(frame):
    return frame._jdf.queryExecution().optimizedPlan().toString()


def test_few_rows_come_with_the_frame(spark, monkeypatch):
    slots = Slots(monkeypatch, pa.record_batch({"n": [1, 2]}))
    frame = slots.frame(spark, 4)
    assert "MapInArrow" not in plan_of(frame)
    assert sorted(row.n for row in frame.collect()) == [1, 1, 2, 2]
    assert slots.fetched == 2


@pytest.mark.parametrize(("rows", "text", "fetched"), [(2_001, "x", 0), (4, "x" * 200_000, 2)])
def test_many_rows_or_bytes_stay_in_the_slots(spark, monkeypatch, rows, text, fetched):
    slots = Slots(monkeypatch, pa.record_batch({"text": [text]}))
    frame = slots.frame(spark, rows)
    assert "MapInArrow" in plan_of(frame)
    assert slots.fetched == fetched
