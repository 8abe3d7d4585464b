"""Runs a source's stateless chain in one of Spark's Python workers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from pystate.common.time import current_time_ms
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.output_tag import OutputTag
from pystate.core.api.row_decoder import RowDecoder
from pystate.core.metrics.metric import MetricGroup
from pystate.core.metrics.metric_catalog import system_metric
from pystate.core.metrics.sample import MetricSample, MetricValue, SampleKey
from pystate.core.metrics.sums import since
from pystate.core.records.codec import RecordCodec
from pystate.runtime.engines.micro_batch.slot.kept_output import KeptOutput
from pystate.runtime.engines.micro_batch.spark.lasting_partitions import PartitionWatermarks
from pystate.runtime.engines.micro_batch.spark.level import Level, LevelWriter, level_index
from pystate.runtime.plan.chain import OperatorSpec
from pystate.runtime.plan.event_time import source_channel
from pystate.runtime.plan.task import JobEnvironment, TaskSpec
from pystate.runtime.plan.task_output import OutputSpec
from pystate.runtime.slot.chain.compiled_chain import CompiledChain
from pystate.runtime.slot.chain.watermark_rows import OutgoingWatermark, watermark_of
from pystate.runtime.slot.event_time.chain_time import MIN_WATERMARK, ChainTime
from pystate.runtime.slot.metrics.task_metrics import TaskMetrics
from pystate.runtime.slot.operators.contexts import SubtaskRuntimeContext
from pystate.runtime.slot.operators.one_input import Emit
from pystate.runtime.slot.output_buffer import OutputBuffer
from pystate.runtime.spark.source_metrics import StageReport

_TAG = 0  # of the only output in a file of spilled batches


class ReadyBatches:
    """Buffers record batches of one schema in order: in memory up to a bound, beyond it in a file.

    A stage empties it between two elements, so only the output for a single element can exceed the bound.

    Args:
        memory_bound: Bytes held in memory; a single batch may be larger.

    Attributes:
        in_memory: The batches held in memory, always the same list; empty if none waits.
    """

    def __init__(self, memory_bound: int) -> None:
        self._memory_bound = memory_bound
        self.in_memory: list[pa.RecordBatch] = []
        self._bytes = 0
        self._spilled: KeptOutput | None = None

    def append(self, batch: pa.RecordBatch) -> None:
        """Add a batch."""
        if not self.in_memory or (self._spilled is None and self._bytes + batch.nbytes <= self._memory_bound):
            self._bytes += batch.nbytes
            self.in_memory.append(batch)
            return
        if self._spilled is None:
            self._spilled = KeptOutput(0)
        self._spilled.append(_TAG, batch.serialize().to_pybytes(), batch.num_rows)

    def drain(self) -> Iterator[pa.RecordBatch]:
        """Yield and remove all batches, the oldest first."""
        batches, spilled = list(self.in_memory), self._spilled
        self.in_memory.clear()
        self._bytes, self._spilled = 0, None
        yield from batches
        if spilled is not None:
            try:
                for data in spilled.batches(_TAG):
                    yield pa.ipc.read_record_batch(pa.py_buffer(data), batches[0].schema)
            finally:
                spilled.close()

    def close(self) -> None:
        """Drop all batches."""
        self.in_memory.clear()
        if self._spilled is not None:
            self._spilled.close()
            self._spilled = None


@dataclass
class SourceStageSpec:
    """The specification of a source stage.

    Attributes:
        task: The source with its chain.
        environment: The job's environment.
        level: The first level of tasks; all outputs of the chain lead to it or through it.
    """

    task: TaskSpec
    environment: JobEnvironment
    level: Level


class SourceStage:
    """A chain whose functions are opened once and then process one partition after another.

    Args:
        spec: The chain to run.
    """

    def __init__(self, spec: SourceStageSpec) -> None:
        self._spec = spec
        self._contexts: list[tuple[OperatorSpec, SubtaskRuntimeContext]] = []
        chain = spec.task.chain
        self._index_of = {edge.tag: level_index(spec.level, edge) for edge in chain.all_outputs()}
        self._time = time = ChainTime(current_time_ms)
        self._buffers = {edge.tag: OutputBuffer(edge, self._sink, time=time) for edge in chain.all_outputs()}
        self._timed = [edge for edge in chain.all_outputs() if edge.timestamped]
        self._compiled = CompiledChain(chain, self._buffers, self._make_context, time)
        rows = spec.task.inputs[0]
        self._decode = RecordCodec(rows.type_info, spec.task.name).decode if rows.decoder is None else self._decoded
        self._partitions = PartitionWatermarks(rows.partitioned_by, self._compiled.assigners)
        self._told: dict[SampleKey, MetricValue] = {}
        self._begin(0)
        source = OperatorSpec(spec.task.uid, spec.task.name, OperatorKind.SOURCE, None)
        self._source_context = self._make_context(source)

    def open(self, partition: int) -> None:
        """Open the functions before the first partition."""
        self._begin(partition)
        self._compiled.open()

    def close(self) -> None:
        """Close the functions, once."""
        self._compiled.close()

    def run(
        self, partition: int, batches: Iterator[pa.RecordBatch], report: StageReport | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the chain's output for the rows of a partition.

        Args:
            partition: The partition number.
            batches: Its rows.
            report: Receives the metrics of this partition alone.
        """
        self._begin(partition)
        ready, metrics, emit = self._ready, self._metrics, self._compiled.emit
        decoder = self._spec.task.inputs[0].decoder
        try:
            for batch in batches:
                for run in self._partitions.runs(batch, self._decode(batch)):
                    elements = run if decoder is None else _elements(decoder, run)
                    more = True
                    while more:
                        with metrics.busy:
                            more = _emit_until_ready(elements, emit, ready.in_memory)
                        yield from ready.drain()
                metrics.batch_in(batch.num_rows, batch.nbytes)
            with metrics.busy:
                for buffer in self._buffers.values():
                    buffer.flush()
            self._append_watermarks()
            if report is not None:
                metrics.sample_gauges()
                report(partition, [self._since_last(sample) for sample in metrics.collect(0.0)])
            yield from ready.drain()
        finally:
            ready.close()

    def _decoded(self, batch: pa.RecordBatch) -> Iterator[Any]:
        """Yield the elements of rows, None for a row without one; the time of each is set just before it is used."""
        decoder, time = self._spec.task.inputs[0].decoder, self._time
        assert decoder is not None  # noqa: S101 - otherwise rows are decoded by their type
        for element, time.timestamp in decoder.decode(batch, self):
            yield element
        time.timestamp = None

    def metric_group(self) -> MetricGroup:
        """Return the metric group of the source."""
        return self._source_context.get_metrics_group()

    def collect_side(self, tag: OutputTag, value: Any, timestamp: int | None = None) -> None:
        """Emit an element to a side output of the source."""
        self._time.timestamp = timestamp
        self._compiled.output.emit_tagged(tag, value)

    def _begin(self, partition: int) -> None:
        self._partition = partition
        self._ready = ReadyBatches(self._spec.environment.kept_output_bytes)
        self._writer = LevelWriter(self._spec.level, partition)
        self._metrics = TaskMetrics(self._spec.task)
        for assigner in self._compiled.assigners.values():
            assigner.begin()
        self._partitions.begin()
        for operator, context in self._contexts:
            context.move_to(partition)
            self._metrics.operators[operator.uid] = context.metrics

    def _append_watermarks(self) -> None:
        """Append the watermarks after all rows; none if there were no rows, so that an idle source is recognized."""
        for partition in self._partitions.partitions():
            for edge in self._timed:
                watermark, idle = watermark_of(edge, self._compiled.assigners, MIN_WATERMARK, task_is_idle=False)
                if watermark != MIN_WATERMARK:
                    channel = source_channel(self._spec.task.uid, edge, partition)
                    output, row = OutgoingWatermark(edge, channel, watermark, idle).batch()
                    self._ready.append(self._writer.write(level_index(self._spec.level, output), row))

    def _make_context(self, operator: OperatorSpec) -> SubtaskRuntimeContext:
        context = SubtaskRuntimeContext(operator, self._spec.task, self._partition, self._spec.environment, None)
        self._contexts.append((operator, context))
        self._metrics.operators[operator.uid] = context.metrics
        return context

    def _sink(self, edge: OutputSpec, batch: pa.RecordBatch) -> None:
        self._metrics.batch_out(edge.tag, batch.num_rows, batch.nbytes)
        self._ready.append(self._writer.write(self._index_of[edge.tag], batch))

    def _since_last(self, sample: MetricSample) -> MetricSample:
        """Return the increase of a user metric since the last report: listeners add up."""
        if system_metric(sample.name, sample.groups) is not None:
            return sample  # already measured for this partition alone
        before, self._told[sample.key] = self._told.get(sample.key), sample.value
        return replace(sample, value=since(sample.kind, before, sample.value))


def _elements(decoder: RowDecoder, decoded: Iterator[Any]) -> Iterator[Any]:
    if decoder.makes_several:
        return itertools.chain.from_iterable(decoded)
    return (element for element in decoded if element is not None)


def _emit_until_ready(elements: Iterator[Any], emit: Emit, ready: list[pa.RecordBatch]) -> bool:
    """Emit elements until a batch is ready; return whether there may be more."""
    for element in elements:
        emit(element)
        if ready:
            return True
    return False
