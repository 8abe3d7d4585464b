"""Inputs of the savepoint writer: transformations of operators, and their data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pystate.common.errors import StateError
from pystate.common.type_info import TypeInformation
from pystate.core.records.codec import RESERVED_PREFIX, RecordCodec
from pystate.core.snapshot.operator_state import OperatorSubtaskState
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.state_processor.entry_frames import KeyedEntries

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ORDINAL_FIELD = RESERVED_PREFIX + "ordinal"


@dataclass(frozen=True)
class OperatorTarget:
    """The operator to write.

    Attributes:
        spark: The session that writes.
        uid: Its uid.
        parallelism: Its number of subtasks.
        max_parallelism: Its number of key groups.
    """

    spark: SparkSession
    uid: str
    parallelism: int
    max_parallelism: int


class KeyedTransformation(ABC):
    """Makes keyed states of an operator."""

    @abstractmethod
    def entries(self, target: OperatorTarget) -> KeyedEntries:
        """Return the states and their entries.

        Raises:
            PystateError: The data doesn't fit the states.
        """


class OperatorStateTransformation(ABC):
    """Makes non-keyed states of an operator."""

    @abstractmethod
    def write(self, target: OperatorTarget, location: SnapshotLocation, prefix: str) -> dict[int, OperatorSubtaskState]:
        """Write the states; return the entries of `_metadata`, by subtask.

        Args:
            target: The operator.
            location: The directory.
            prefix: The prefix of file names.

        Raises:
            PystateError: The data doesn't fit the states, or they can't be written.
        """


Transformation = KeyedTransformation | OperatorStateTransformation


class Elements:
    """The elements for bootstrap functions: rows of a DataFrame, or any objects.

    Args:
        data: A DataFrame, whose rows become `Row` objects with its column names; or objects in memory.
    """

    def __init__(self, data: DataFrame | Iterable[Any]) -> None:
        from pyspark.sql import DataFrame

        self._frame: DataFrame | None = None
        self._objects: list[Any] = []
        if isinstance(data, DataFrame):
            self._frame = data
        else:
            self._objects = list(data)
        self.type_info: TypeInformation | None = None
        if self._frame is not None:
            from pystate.runtime.spark.spark_types import type_info_of

            if self._frame.isStreaming:
                message = "State is bootstrapped with a batch DataFrame, not with a streaming one."
                raise StateError(message)
            self.type_info = type_info_of(self._frame.schema, "the bootstrap data")

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return the elements as a DataFrame, ordered by the last column."""
        from pyspark.sql import functions as F

        frame = self._frame
        if frame is None:
            codec = RecordCodec(None, "the bootstrap data")
            prepare = codec.prepare
            assert prepare is not None  # noqa: S101 - untyped elements are pickled
            rows = [(bytearray(prepare(element)),) for element in self._objects]
            frame = spark.createDataFrame(rows, "value binary")
        return frame.withColumn(ORDINAL_FIELD, F.monotonically_increasing_id())


def decoded(
    type_info: TypeInformation | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[tuple[pa.RecordBatch, list[Any]]]:
    """Return batches, and the elements in their first columns."""
    codec = RecordCodec(type_info, "the bootstrap data")
    for batch in batches:
        if batch.num_rows:
            yield batch, codec.decode(batch)
