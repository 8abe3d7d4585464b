"""The execution environment without its streams: settings, sources, execution."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pystate.api.job_graph import SourceTransformation, StreamGraph
from pystate.common.configuration import Configuration
from pystate.common.errors import JobGraphError
from pystate.common.job_client import JobClient
from pystate.common.job_execution_result import JobExecutionResult
from pystate.common.options import CheckpointingMode, CheckpointingOptions, CoreOptions, PipelineOptions
from pystate.common.plain_text import check_text
from pystate.common.type_info import TypeInformation, Types
from pystate.common.watermark_strategy import ColumnTimestampAssigner, WatermarkStrategy
from pystate.datastream.checkpoint_config import CheckpointConfig
from pystate.datastream.connectors.file_system import FileSource
from pystate.datastream.executor import current_executor, for_widest_step
from pystate.datastream.state_backend import StateBackend, state_backend_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pystate.datastream.collected_results import ResultQueue

StreamT = TypeVar("StreamT")
SelfEnvironment = TypeVar("SelfEnvironment", bound="ExecutionEnvironment[Any]")


class ExecutionEnvironment(ABC, Generic[StreamT]):
    """The context a program builds its job in; generic in its streams, which name it and which it needn't import.

    Settings made here go above the command line, which goes above the file, as in Flink.
    """

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._executor = current_executor()
        self._configuration = self._executor.base_configuration()
        if configuration is not None:
            self.configure(configuration)
        self._sources: list[SourceTransformation] = []
        self._notices: list[str] = []

    @abstractmethod
    def _stream(self, step: SourceTransformation) -> StreamT:
        """Return the stream that a source makes."""

    @property
    def spark(self) -> SparkSession:
        """The session the job runs in; made at first use with the parallelism known by then."""
        session: SparkSession = self._executor.spark_session(for_widest_step(self._configuration, self._graph()))
        return session

    def configure(self, configuration: Configuration) -> None:
        """Take over every option that is set in `configuration`."""
        self._configuration.add_all(configuration)

    def get_configuration(self) -> Configuration:
        """Return the options in force (changes to it count)."""
        return self._configuration

    def set_parallelism(self: SelfEnvironment, parallelism: int) -> SelfEnvironment:
        """Set the number of subtasks of every operator that doesn't set its own."""
        self._configuration.set(CoreOptions.DEFAULT_PARALLELISM, parallelism)
        return self

    def get_parallelism(self) -> int:
        """Return the number of subtasks of every operator that doesn't set its own."""
        return int(self._configuration.get(CoreOptions.DEFAULT_PARALLELISM))

    def set_max_parallelism(self: SelfEnvironment, max_parallelism: int) -> SelfEnvironment:
        """Set the number of key groups; fixed for the life of the state."""
        self._configuration.set(PipelineOptions.MAX_PARALLELISM, max_parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """Return the number of key groups, -1 where it is left to the runtime."""
        return int(self._configuration.get(PipelineOptions.MAX_PARALLELISM))

    def enable_checkpointing(
        self: SelfEnvironment,
        interval: int | None = None,
        mode: CheckpointingMode | None = None,
        force: bool | None = None,
    ) -> SelfEnvironment:
        """Take a checkpoint every `interval` milliseconds.

        Args:
            interval: Without it, it is 500 ms as in Flink's oldest form of this method; the job says so at its start.
            mode: The consistency of checkpoints.
            force: Without effect, and said to be; in Flink it allowed checkpoints of iterations.
        """
        if interval is None:
            interval = 500
            self._notices.append("enable_checkpointing() names no interval: it is 500 ms")
        if force is not None:
            self._notices.append("enable_checkpointing(force=...) has no effect: there are no iterations")
        self._configuration.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, interval)
        if mode is not None:
            self._configuration.set(CheckpointingOptions.CHECKPOINTING_CONSISTENCY_MODE, mode)
        return self

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
            source_name: What people see.
            bounded: Read what is there when the job starts, and end.
            event_time: The column with the time of each row: a timestamp, or ms since 1970.
            watermark_strategy: How late rows may be; with `event_time` and without a strategy, not at all.

        Raises:
            JobGraphError: The DataFrame is not streaming, or has no such column.
        """
        if not frame.isStreaming:
            message = "from_data_frame() takes a streaming DataFrame, this one is a batch."
            raise JobGraphError(
                message, where=source_name, hint="make it with env.spark.readStream instead of env.spark.read"
            )
        if event_time is not None:
            if event_time not in frame.columns:
                message = f"event_time={event_time!r}: the columns are {', '.join(frame.columns)}."
                raise JobGraphError(message, where=source_name)
            strategy = watermark_strategy or WatermarkStrategy.for_monotonous_timestamps()
            watermark_strategy = strategy.with_timestamp_assigner(ColumnTimestampAssigner(event_time))
        return self._add_source(
            SourceTransformation(
                name=source_name, frame=lambda: frame, bounded=bounded, watermark_strategy=watermark_strategy
            )
        )

    def read_text_file(self, file_path: str) -> StreamT:
        """Read the lines of a file, or of all files in a folder, once; the job ends when they are read."""
        return self.from_source(FileSource(file_path, monitor_interval_ms=None), source_name=f"text {file_path}")

    def from_source(
        self,
        source: FileSource,
        watermark_strategy: WatermarkStrategy | None = None,
        source_name: str = "Source",
        type_info: TypeInformation | None = None,
    ) -> StreamT:
        """Read a source; the elements of a text file source are its lines, those of a Parquet source its rows.

        Args:
            source: What to read.
            watermark_strategy: Gives elements their times, and makes watermarks; None for neither.
            source_name: What people see.
            type_info: The type of the elements, where the source leaves it open.
        """
        step = SourceTransformation(
            name=source_name,
            frame=lambda: source.to_frame(self.spark),
            single_column=source.single_column,
            bounded=source.bounded,
            watches_files=True,
            path=source.path,
            watermark_strategy=watermark_strategy,
            output_type=type_info or (Types.STRING() if source.single_column else None),
        )
        return self._add_source(step)

    def from_collection(self, collection: Collection[Any], type_info: TypeInformation | None = None) -> StreamT:
        """Read the elements of a collection, in their order, once.

        The program carries the elements: a job that is started from a savepoint goes on behind those that were read, and is
        refused where these are not the same any more. More elements may follow them.

        Args:
            collection: The elements; of a set the order is not the same in each run, so a list is better.
            type_info: Their type; without it they travel pickled.

        Raises:
            JobGraphError: It is no collection, or it is empty.
        """
        if isinstance(collection, (str, bytes, dict)) or not isinstance(collection, Collection):
            message = f"from_collection() takes a list of elements, not {type(collection).__name__}."
            raise JobGraphError(message)
        if not collection:
            message = "The collection is empty."
            raise JobGraphError(message, where="from_collection()")
        step = SourceTransformation(
            name="Collection Source",
            collection=list(collection),
            bounded=True,
            output_type=type_info or Types.PICKLED_BYTE_ARRAY(),
        )
        return self._add_source(step)

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Run the job to its end and return its result.

        The job is what was built since the last `execute()`, with all that this reads; earlier sinks don't run again.

        Raises:
            PystateError: The program can't be run, or the job failed or was cancelled.
        """
        graph, name = self._job(job_name)
        try:
            return self._executor.execute(graph, self._configuration, name)
        finally:
            graph.detach()

    def execute_async(self, job_name: str | None = None) -> JobClient:
        """Start the job in the background, and return what the program may ask of it; see `execute`.

        One job of a program runs at a time: one that is started while another runs begins behind it. The program ends
        behind its jobs.

        Raises:
            PystateError: The program can't be run.
        """
        return self.start(job_name)

    def start(self, job_name: str | None, results: ResultQueue | None = None) -> JobClient:
        """Start the job in the background.

        Args:
            job_name: What people see; None for the default.
            results: Where the program takes its results from.

        Raises:
            PystateError: The program can't be run.
        """
        graph, name = self._job(job_name)
        try:
            return self._executor.execute_async(graph.copy(), self._configuration.copy(), name, results)
        finally:
            graph.detach()

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

    def _graph(self) -> StreamGraph:
        return StreamGraph([source for source in self._sources if not source.detached], self._notices)

    def _add_source(self, step: SourceTransformation) -> StreamT:
        self._sources.append(step)
        return self._stream(step)

    # -- state backend and checkpoints

    _state_backend: StateBackend | None = None

    def get_checkpoint_config(self) -> CheckpointConfig:
        """Return the checkpointing options, to read and to set."""
        return CheckpointConfig(self._configuration)

    def set_state_backend(self: SelfEnvironment, state_backend: StateBackend) -> SelfEnvironment:
        """Set where keyed state lives, whatever command line and file say.

        Raises:
            ConfigurationError: One of the backend's values is not allowed.
        """
        state_backend.apply_to(self._configuration)
        self._state_backend = state_backend
        return self

    def get_state_backend(self) -> StateBackend:
        """Return the backend that was set, else the one that command line and file stand for."""
        return self._state_backend or state_backend_of(self._configuration)

    def set_default_savepoint_directory(self: SelfEnvironment, directory: str) -> SelfEnvironment:
        """Set where savepoints go whose command names no directory."""
        self._configuration.set(CheckpointingOptions.SAVEPOINT_DIRECTORY, directory)
        return self

    def get_default_savepoint_directory(self) -> str | None:
        """Return where savepoints go whose command names no directory; None for nowhere."""
        return self._configuration.get(CheckpointingOptions.SAVEPOINT_DIRECTORY)
