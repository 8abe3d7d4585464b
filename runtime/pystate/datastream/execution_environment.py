"""The execution environment without its streams: settings, sources, execution."""

from __future__ import annotations

import difflib
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.checkpointing_options import CheckpointingOptions, StateRecoveryOptions
from pystate.common.configuration.groups.execution_options import PipelineOptions
from pystate.common.configuration.groups.restart_strategy_options import RestartStrategyOptions, RestartStrategyType
from pystate.common.errors import JobGraphError
from pystate.common.job_client import JobClient
from pystate.common.job_execution_result import JobExecutionResult
from pystate.common.text.plain_text import check_text
from pystate.common.type_info import TypeInformation, Types
from pystate.common.user_code.spark_object import SparkObject
from pystate.common.user_code.user_frames import program_line
from pystate.common.watermark_strategy import ColumnTimestampAssigner, WatermarkStrategy
from pystate.connectors.operators.source_operator import SourceOperator
from pystate.connectors.source import Source, SourceFunction
from pystate.connectors.translated_source import TranslatedSource
from pystate.core.api.executor import current_executor, for_widest_step
from pystate.core.api.json_plan import json_plan
from pystate.core.api.notebook_steps import drop_replaced
from pystate.core.api.stream_graph import StreamGraph
from pystate.core.api.transformations import OwnSourceTransformation, SinkTransformation, SourceTransformation, element_type
from pystate.datastream.connectors.file_system import FileSource
from pystate.datastream.execution_settings import ExecutionSettings
from pystate.datastream.wrong_functions import shown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pystate.core.api.collected_results import ResultQueue

StreamT = TypeVar("StreamT")


class ExecutionEnvironment(ExecutionSettings, ABC, Generic[StreamT]):
    """The context in which a program builds a job; generic in its streams, to avoid importing them."""

    def __init__(self, configuration: Configuration | None = None, session: SparkSession | None = None) -> None:
        self._session = session
        self._executor = current_executor()
        super().__init__(self._executor.base_configuration())
        if configuration is not None:
            self.configure(configuration)
        self._sources: list[SourceTransformation] = []

    @abstractmethod
    def _stream(self, step: SourceTransformation) -> StreamT:
        """Return the stream of a source."""

    @property
    def spark(self) -> SparkSession:
        """The session that the program has given or made, else one of the job's.

        That is created at first use, with the parallelism set by then.
        """
        if self._session is not None:
            return self._session
        session: SparkSession = self._executor.spark_session(for_widest_step(self._configuration, self._graph()))
        return session

    def from_data_frame(
        self,
        frame: DataFrame,
        source_name: str = "DataFrame",
        *,
        bounded: bool = False,
        event_time: str | None = None,
        watermark_strategy: WatermarkStrategy | None = None,
    ) -> StreamT:
        """Read a streaming DataFrame; the elements are rows with its columns.

        Args:
            frame: Made with `env.spark.readStream`, with any stateless operations on it.
            source_name: The name of the source.
            bounded: Whether to read only the data that exists when the job starts.
            event_time: The column with the timestamp of each row: a timestamp, or ms since 1970.
            watermark_strategy: How late rows may be; with `event_time` and no strategy, not at all.

        Raises:
            JobGraphError: The DataFrame is not streaming, has no such column or one of a type that elements can't have, or
                keeps state in Spark.
        """
        from pystate.runtime.engines.micro_batch.spark.source_checks import check_frame
        from pystate.runtime.spark.spark_types import type_info_of

        known = not isinstance(frame, SparkObject)  # of others nothing can be asked
        if known and not frame.isStreaming:
            message = "from_data_frame() takes a streaming DataFrame, this one is a batch."
            hint = "make it with env.spark.readStream instead of env.spark.read; of few rows that are there already, "
            hint += "env.from_collection([tuple(row) for row in frame.collect()], Types.ROW_NAMED([...], [...]))"
            raise JobGraphError(message, where=source_name, hint=hint)
        if event_time is not None:
            if known and event_time not in frame.columns:
                message = f"event_time={event_time!r}: the columns are {', '.join(frame.columns)}."
                near = difflib.get_close_matches(event_time, frame.columns, n=1)
                raise JobGraphError(message, where=source_name, hint=f"did you mean {near[0]!r}?" if near else None)
            strategy = watermark_strategy or WatermarkStrategy.for_monotonous_timestamps()
            watermark_strategy = strategy.with_timestamp_assigner(ColumnTimestampAssigner(event_time))
        if known:
            check_frame(frame, ", ".join(filter(None, [source_name, program_line()])))
        step = SourceTransformation(
            name=source_name,
            frame=lambda: frame,
            bounded=bounded,
            watermark_strategy=watermark_strategy,
            output_type=type_info_of(frame.schema, source_name) if known else None,
        )
        return self._add_source(step)

    def read_text_file(self, file_path: str) -> StreamT:
        """Read the lines of a file, or of all files in a folder, as a bounded source."""
        return self.from_source(FileSource(file_path, monitor_interval_ms=None), source_name=f"text {file_path}")

    def from_source(
        self,
        source: TranslatedSource | Source[Any, Any],
        watermark_strategy: WatermarkStrategy | None = None,
        source_name: str = "Source",
        type_info: TypeInformation | None = None,
    ) -> StreamT:
        """Read a source; the elements of a text file source are its lines, those of a Parquet source its rows.

        Those of a source with a schema are what that makes of the values of records. A split-based `Source`, such as
        `NumberSequenceSource`, runs as a task in slots.

        Args:
            source: The source.
            watermark_strategy: Assigns timestamps and makes watermarks; None keeps those of the source, if any.
            source_name: The name of the source.
            type_info: The type of the elements, if the source doesn't define it.

        Raises:
            JobGraphError: It isn't a source.
        """
        if isinstance(source, TranslatedSource):
            return self._add_source(source.to_step(lambda: self.spark, source_name, watermark_strategy, type_info))
        declared = type_info or getattr(source, "produced_type", None)
        return self._add_own_source(source, watermark_strategy, source_name, declared)

    def from_collection(self, collection: Iterable[Any], type_info: TypeInformation | None = None) -> StreamT:
        """Read the elements of a collection, in order, as a bounded source.

        The program contains the elements: a job started from a savepoint continues after those that were read, and is
            rejected if these have changed. Elements may be appended.

        Args:
            collection: The elements, possibly none; a generator is consumed at once. The order of a set differs between
                runs, so prefer a list.
            type_info: Their type; without it they are pickled.

        Raises:
            JobGraphError: It isn't iterable; or it is a string, bytes or a dict; or an element of a declared type is None.
        """
        if isinstance(collection, (str, bytes, dict)) or not isinstance(collection, Iterable):
            message = f"from_collection() takes a list of elements, not {type(collection).__name__}."
            raise JobGraphError(message)
        elements = list(collection)
        check_no_none(elements, element_type(type_info))
        step = SourceTransformation(
            name="Collection Source",
            collection=elements,
            bounded=True,
            output_type=type_info or Types.PICKLED_BYTE_ARRAY(),
        )
        return self._add_source(step)

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Run the job to its end and return its result.

        The job consists of the sinks built since the last `execute()`, with their inputs; earlier sinks don't run again.

        Raises:
            PystateError: The program can't be run, or the job failed or was cancelled.
        """
        graph, name = self._job(job_name)
        try:
            # engines modify the graph that they run; the program's own is kept for its next job
            return self._executor.execute(graph.copy(), self._configuration, name)
        finally:
            graph.detach()

    def execute_async(self, job_name: str | None = None) -> JobClient:
        """Start the job in the background, and return its client; see `execute`.

        The jobs of a program run one at a time: a job started while another runs begins after it. The program ends after its
            jobs.

        Raises:
            PystateError: The program can't be run.
        """
        return self.start(job_name)

    def start(self, job_name: str | None, results: ResultQueue | None = None) -> JobClient:
        """Start the job in the background.

        Args:
            job_name: The name of the job; None for the default.
            results: The stream of results that the program reads, if any.

        Raises:
            PystateError: The program can't be run.
        """
        graph, name = self._job(job_name)
        try:
            return self._executor.execute_async(graph.copy(), self._configuration.copy(), name, results)
        finally:
            graph.detach()

    def start_trial(self, graph: StreamGraph, job_name: str, results: ResultQueue) -> JobClient:
        """Start a job that is there to be looked at: without state to start from, checkpoints and restarts.

        Args:
            graph: The steps, which are none of the program's next job.
            job_name: The name of the job.
            results: The stream of results that the program reads.

        Raises:
            PystateError: The program can't be run.
        """
        configuration = self._configuration.copy()
        for option in (CheckpointingOptions.CHECKPOINTING_INTERVAL, StateRecoveryOptions.SAVEPOINT_PATH):
            configuration.remove_config(option.key)
        configuration.set(CheckpointingOptions.EVERY_EPOCH, False)
        configuration.set(RestartStrategyOptions.RESTART_STRATEGY, RestartStrategyType.NONE)
        return self._executor.execute_async(graph, configuration, job_name, results)

    def _job(self, job_name: str | None) -> tuple[StreamGraph, str]:
        graph = self._graph()
        if not graph.sources:
            message, hint = (
                "The job has no source.",
                "start with env.from_source(...), env.from_data_frame(...) or env.from_collection(...)",
            )
            if self._sources:
                message = "Nothing was built since the last execute(), which has taken all there was."
                hint = "give the job a sink of its own, for example stream.print()"
            raise JobGraphError(message, hint=hint)
        name = job_name or str(self._configuration.get(PipelineOptions.NAME) or "pystate job")
        check_text(name, "the name of a job", JobGraphError)
        return graph, name

    def get_execution_plan(self) -> str:
        """Return the graph built since the last `execute()` as JSON, in the format of Flink's execution plan.

        Raises:
            JobGraphError: Two steps have one uid.
        """
        auto = bool(self._configuration.get(PipelineOptions.AUTO_GENERATE_UIDS))
        return json.dumps(json_plan(self._graph(), self.get_parallelism(), auto_uids=auto), indent=2)

    def add_source(
        self, source_func: Any, source_name: str = "Custom Source", type_info: TypeInformation | None = None
    ) -> StreamT:
        """Run a source function as a task in slots: a `ParallelSourceFunction` in all subtasks, others in one.

        Args:
            source_func: The function.
            source_name: The name of the source.
            type_info: The type of the elements; without it they are pickled.

        Raises:
            JobGraphError: It isn't a `SourceFunction`.
        """
        if not isinstance(source_func, SourceFunction):
            message = f"add_source() takes a SourceFunction, not {shown(source_func)}."
            hint = "extend pystate.datastream.functions.SourceFunction, or use env.from_source(...) for other sources"
            raise JobGraphError(message, where=source_name, hint=hint)
        return self._add_own_source(source_func, None, source_name, type_info)

    def _add_own_source(
        self, source: Any, strategy: WatermarkStrategy | None, name: str, type_info: TypeInformation | None
    ) -> StreamT:
        output_type = type_info or Types.PICKLED_BYTE_ARRAY()
        operator = SourceOperator(source, output_type)
        step = OwnSourceTransformation(
            name=name,
            bounded=operator.bounded,
            watermark_strategy=strategy,
            output_type=output_type,
            function=operator,
            non_parallel=not operator.parallel,
            parallelism=None if operator.parallel else 1,
            has_side_outputs=isinstance(source, Source),
        )
        return self._add_source(step)

    def create_input(self, input_format: Any, type_info: TypeInformation | None = None) -> StreamT:
        """Read an `AvroInputFormat`. Flink's other input formats are not supported.

        Args:
            input_format: The format.
            type_info: The type of the elements, if the format doesn't define it.

        Raises:
            JobGraphError: It is another one.
        """
        if isinstance(input_format, TranslatedSource):
            return self.from_source(input_format, source_name=type(input_format).__name__, type_info=type_info)
        message = f"create_input({input_format!r}): an InputFormat is Java code of Flink's."
        raise JobGraphError(message, hint="use env.from_source(FileSource...) or env.from_data_frame(...)")

    def close(self) -> None:
        """Do nothing: a program's Spark ends with the program."""

    def _graph(self) -> StreamGraph:
        for step in drop_replaced(source for source in self._sources if not source.detached):
            if isinstance(step, SinkTransformation):
                place = "" if step.place is None else f" ({step.place})"
                what = f"{step.name!r}{place} was built on what a cell has replaced that was run again"
                sys.stderr.write(f"WARNING: {what}: it is left out. Run its cell again, too.\n")
        sources = [source for source in self._sources if not source.detached]
        return StreamGraph(sources, self._notices, self._session)

    def _add_source(self, step: SourceTransformation) -> StreamT:
        self._sources.append(step)
        return self._stream(step)


def check_no_none(elements: Sequence[Any], type_info: TypeInformation | None) -> None:
    """Reject None among elements of a declared type.

    Raises:
        JobGraphError: Names its position.
    """
    position = next((index for index, element in enumerate(elements) if element is None), None)
    if position is not None and type_info is not None:
        message = f"from_collection(): element {position} is None, the type is {type_info.name}."
        raise JobGraphError(message, hint="leave it out, or the type: elements without a declared type may be None")
