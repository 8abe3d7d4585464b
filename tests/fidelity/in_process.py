"""Jobs of bounded collections in one process, without Spark: the real planner, levels, stages and operator chains.

What Spark does in a job is done here by lists: shuffles, and the order of stages. Time stands still but for what functions
sleep: `time.sleep` sets the clock on.
"""

from __future__ import annotations

import functools
import itertools
import pickle
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pyarrow as pa
from pyspark.serializers import CloudPickleSerializer

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.execution_options import CoreOptions, PipelineOptions
from pystate.core.api.executor import Executor, JobExecutionResult
from pystate.core.api.stream_graph import StreamGraph
from pystate.core.api.transformations import SinkKind, SourceTransformation
from pystate.core.records.codec import KEY_GROUP_FIELD, PARTITION_FIELD, TIMESTAMP_FIELD, RecordCodec
from pystate.core.state.keys.keys import KeyCodec
from pystate.runtime.driver.program.resolved_execution_mode import in_execution_mode
from pystate.runtime.engines.micro_batch.spark.exchange import forward_rows
from pystate.runtime.engines.micro_batch.spark.level import (
    PORT_FIELD,
    ROWS_FIELD,
    TURN_FIELD,
    Level,
    LevelWriter,
    Port,
    levels_of,
)
from pystate.runtime.engines.micro_batch.spark.source_stage import SourceStage, SourceStageSpec
from pystate.runtime.plan.job_plan import JobPlan, SourcePlan, edges_of, vertex_id
from pystate.runtime.plan.planner import JobPlanner
from pystate.runtime.plan.task import JobEnvironment, TaskInput, TaskSpec
from pystate.runtime.plan.task_output import OutputSpec, Routing, with_watermarks
from pystate.runtime.slot.chain.operator_chain import OperatorChain
from pystate.runtime.slot.snapshots.restored_operator import RestoredOperator

START_MS = 1_600_000_000_000
ALL = 1 << 40
_SLEEP = time.sleep


class Clock:
    """Milliseconds since 1970, set on by sleeping; threads of earlier tests that still end sleep as ever."""

    def __init__(self) -> None:
        self.now = START_MS
        self._others = {*threading.enumerate()} - {threading.current_thread()}

    def __call__(self) -> int:
        return self.now

    def sleep(self, seconds: float) -> None:
        if threading.current_thread() in self._others:
            _SLEEP(seconds)
        else:
            self.now += round(seconds * 1000)


class Rows:
    """What a function for each batch gets in the place of a DataFrame."""

    def __init__(self, batches: list[pa.RecordBatch]) -> None:
        self._batches = batches

    def collect(self) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for batch in self._batches for row in batch.to_pylist()]


class InProcessExecutor(Executor):
    """Runs jobs here.

    Args:
        rows_per_epoch: How many elements of each collection an epoch has; behind each such epoch follows one without any,
            as the clock brings them about on an idle stream.
    """

    def __init__(self, parallelism: int = 1, rows_per_epoch: int = ALL) -> None:
        self._parallelism = parallelism
        self._rows_per_epoch = rows_per_epoch

    def base_configuration(self) -> Configuration:
        return Configuration({CoreOptions.DEFAULT_PARALLELISM.key: str(self._parallelism)})

    def spark_session(self, configuration: Configuration) -> Any:
        message = "there is no Spark here"
        raise AssertionError(message)

    def execute(self, graph: StreamGraph, configuration: Configuration, job_name: str) -> JobExecutionResult:
        configuration = in_execution_mode(graph, configuration)
        uids = graph.assign_uids(auto=True)
        types = [source.output_type for source in graph.live_sources()]
        parallelism = configuration.get(CoreOptions.DEFAULT_PARALLELISM)
        reuse = configuration.get(PipelineOptions.OBJECT_REUSE)
        plan = JobPlanner(graph, uids, parallelism, None, object_reuse=reuse).plan(types)
        clock = Clock()
        job = InProcessJob(plan, clock)  # operators of ours may name time.sleep, and are pickled by that name
        with mock.patch.object(time, "sleep", clock.sleep):
            job.open()
            longest = 0 if plan.batch else max(len(source.step.collection) for source in plan.sources)
            for first in range(0, longest, self._rows_per_epoch):
                job.run_epoch(slice(first, first + self._rows_per_epoch))
                if longest > first + self._rows_per_epoch:
                    clock.sleep(0.1)
                    job.run_epoch(slice(0))
            job.run_epoch(slice(None) if plan.batch else slice(0), end_of_input=True)
            job.commit_rest()
            job.close()
        return JobExecutionResult("0" * 32, 0)


class InProcessJob:
    """An execution attempt.

    Args:
        plan: What runs.
        clock: The time.
        backend: The state backend.
        directory: For its files.
    """

    def __init__(self, plan: JobPlan, clock: Clock, backend: str = "hashmap", directory: str = "") -> None:
        self._plan = plan
        self._environment = JobEnvironment("a" * 32, "job", 0, {}, backend, 1 << 20, directory, batch=plan.batch)
        self._kept: dict[int, list[pa.RecordBatch]] = defaultdict(list)
        self.chains = {
            (task.uid, index): OperatorChain(_copy(task), index, self._environment, self._keep, clock)
            for task in plan.tasks
            for index in range(task.parallelism)
        }
        self._levels = levels_of(plan)
        self._stages = [self._stage(source) for source in plan.sources]
        self._epochs = itertools.count()

    def open(self, restored: Callable[[str, int], RestoredOperator] | None = None) -> None:
        """Open all functions, with what each operator's uid and subtask find of a snapshot."""
        for (_, subtask), chain in self.chains.items():
            uids = [operator.spec.uid for operator in chain.operators]
            chain.open(None if restored is None else {uid: restored(uid, subtask) for uid in uids}, restored and 1)
        for stage in self._stages:
            if stage is not None:
                stage.open(0)

    def commit_rest(self) -> None:
        """Have sinks make all visible: jobs here take no checkpoints."""
        for chain in self.chains.values():
            for operator in reversed(chain.operators):
                operator.commit_rest()

    def close(self) -> None:
        for stage in self._stages:
            if stage is not None:
                stage.close()
        for chain in self.chains.values():
            chain.close()

    def run_epoch(self, part: slice, *, end_of_input: bool = False) -> None:
        sinks: dict[tuple[str, int], list[pa.RecordBatch]] = defaultdict(list)
        rows = [
            (number, batch)
            for number, (source, stage) in enumerate(zip(self._plan.sources, self._stages, strict=True))
            for batch in _source_rows(source.step, part, stage, number)
        ]
        for level, following in zip(self._levels, [*self._levels[1:], None], strict=True):
            rows = self._run_level(level, following, rows, sinks, end_of_input=end_of_input)
        for chain in self.chains.values():
            chain.finish_epoch()
        epoch = next(self._epochs)
        for sink in self._plan.sinks:
            if sink.step.kind is SinkKind.FOR_EACH_BATCH:
                sink.step.function(Rows(sinks[sink.task_uid, sink.tag]), epoch)

    def _run_level(
        self,
        level: Level,
        following: Level | None,
        rows: list[tuple[int, pa.RecordBatch]],
        sinks: dict[tuple[str, int], list[pa.RecordBatch]],
        *,
        end_of_input: bool,
    ) -> list[tuple[int, pa.RecordBatch]]:
        partitions = shuffled(level, rows)
        made: list[tuple[int, pa.RecordBatch]] = []
        for partition in range(level.partitions):
            task, subtask = level.owner_of(partition)
            chain, came = self.chains[task.uid, subtask], []
            passing = forward_rows(level, following, partitions[partition], lambda *rows: came.append(rows))  # noqa: B023
            made += [(partition, batch) for batch in passing]
            inputs = task.inputs
            # elements of broadcast streams come first within an epoch
            came.sort(key=lambda rows: rows[0] < len(inputs) and not inputs[rows[0]].broadcast)  # noqa: B023
            self._kept.clear()
            for index, batch in came:
                if index < len(inputs):
                    chain.on_batch(batch, index)
                else:
                    chain.take_watermarks(batch, index - len(inputs))
            chain.advance_watermarks(end_of_input=end_of_input)
            chain.flush_output()
            for outgoing in chain.watermarks_out():
                output, row = outgoing.batch()
                self._kept[output.tag].append(row)
            if following is not None:
                writer = LevelWriter(following, partition)
                for edge in with_watermarks(edges_of(task)):
                    index = following.index_of(edge)
                    made += [(partition, writer.write(index, batch)) for batch in self._kept[edge.tag]]
            for tag, batches in self._kept.items():
                sinks[task.uid, tag] += batches
        return made

    def _keep(self, output: OutputSpec, batch: pa.RecordBatch) -> None:
        self._kept[output.tag].append(batch)

    def _stage(self, source: SourcePlan) -> SourceStage | None:
        if source.chain is None:
            return None
        name, width = source.step.name, self._plan.parallelism
        read = [TaskInput(source.step.output_type)]
        task = TaskSpec(source.uid, name, vertex_id(source.uid), width, 128, read, chain=source.chain)
        return SourceStage(SourceStageSpec(task, self._environment, self._levels[0]))


def _copy(task: TaskSpec) -> TaskSpec:
    """Return what a slot would get: functions of its own."""
    copied: TaskSpec = pickle.loads(CloudPickleSerializer().dumps(task))
    return copied


def _source_rows(
    source: SourceTransformation, part: slice, stage: SourceStage | None, partition: int
) -> Iterator[pa.RecordBatch]:
    elements = source.collection[part]
    codec = RecordCodec(source.output_type, source.name)
    prepared = list(elements if codec.prepare is None else map(codec.prepare, elements))
    batches = [pa.RecordBatch.from_arrays(codec.encode(prepared), schema=codec.schema)] if prepared else []
    return iter(batches) if stage is None else stage.run(partition, iter(batches))


def shuffled(level: Level, rows: list[tuple[int, pa.RecordBatch]]) -> dict[int, list[pa.RecordBatch]]:
    """Return the rows of each partition of a level, keyed ones with their key groups, as `translator._routed` has Spark do.

    Args:
        level: The level.
        rows: With the partition that has made them.
    """
    partitions: dict[int, list[pa.RecordBatch]] = defaultdict(list)
    places: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for partition, batch in rows:
        ports = [0] * batch.num_rows if level.is_single else batch.column(PORT_FIELD).to_pylist()
        for number, group in itertools.groupby(range(batch.num_rows), key=ports.__getitem__):
            indices = list(group)
            part = batch.slice(indices[0], len(indices))
            content = part
            if not level.is_single:
                struct = part.column(ROWS_FIELD.format(number))
                content = pa.RecordBatch.from_arrays(struct.flatten(), names=[one.name for one in struct.type])
            groups, targets = _targets(level, number, content, partition)
            if not level.is_single or groups[0] is not None:
                part = part.append_column(KEY_GROUP_FIELD, pa.array(groups, pa.int32()))
            for target in range(level.partitions):
                chosen = [row for row, found in enumerate(targets) if target in found]
                if chosen and not level.in_order:
                    partitions[target].append(part.take(chosen))
                elif chosen:
                    found = _places(level, number, content)
                    places[target] += [(*found[row], part.slice(row, 1)) for row in chosen]
    for target, placed in places.items():
        partitions[target] = [row for *_, row in sorted(placed, key=lambda place: place[:2])]
    return partitions


def _places(level: Level, number: int, rows: pa.RecordBatch) -> list[tuple[str, float]]:
    """Return what rows of batch mode are sorted by, as `translator._sorted` has Spark do: key and time."""
    port = level.port(number)
    if number >= len(level.ports) or port.key is None:
        return [("", 0)] * rows.num_rows
    times: list[int | None] = [None] * rows.num_rows
    if port.task.inputs[port.input_index].timestamped:
        times = rows.column(TIMESTAMP_FIELD).to_pylist()
    keys = rows.column(port.key.column).to_pylist()
    return [(f"key {key!r}", float("-inf") if time is None else time) for key, time in zip(keys, times, strict=True)]


def _targets(level: Level, number: int, rows: pa.RecordBatch, partition: int) -> tuple[list[Any], list[range]]:
    port, count = level.port(number), rows.num_rows
    nothing = [None] * count
    if number >= len(level.ports):
        return nothing, [range(partition % level.partitions, partition % level.partitions + 1)] * count
    first, width = level.first_partition(port.task), port.task.parallelism
    if port.routing in (Routing.BROADCAST, Routing.WATERMARK):
        return nothing, [range(first, first + width)] * count
    if port.routing is Routing.KEY:
        groups = _key_groups(port, rows)
        subtasks = [group * width // port.task.max_parallelism for group in groups]
        return groups, [range(first + one, first + one + 1) for one in subtasks]
    single: Callable[[int], int] = {
        Routing.FORWARD: lambda row: partition % width,
        Routing.REBALANCE: lambda row: rows.column(TURN_FIELD)[row].as_py() % width,
        Routing.SHUFFLE: lambda row: rows.column(TURN_FIELD)[row].as_py() % width,
        Routing.GLOBAL: lambda row: 0,
        Routing.CUSTOM: lambda row: rows.column(PARTITION_FIELD)[row].as_py(),
    }[port.routing]
    return nothing, [range(first + single(row), first + single(row) + 1) for row in range(count)]


def _key_groups(port: Port, rows: pa.RecordBatch) -> list[int]:
    key, codec = port.key, _codec(port.key.key_type)
    keys = key.decoder(codec)(rows.column(key.column))
    return [codec.key_group(one, port.task.max_parallelism) for one in keys]


@functools.cache
def _codec(key_type: Any) -> KeyCodec:
    return KeyCodec(key_type)
