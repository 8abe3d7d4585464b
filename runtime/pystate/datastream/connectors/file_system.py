"""Files as a source and a sink, in the names of `pyflink.datastream.connectors.file_system`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from pystate.common.errors import JobGraphError
from pystate.common.serialization import BulkWriterFactory, Encoder
from pystate.common.time import Duration
from pystate.common.type_info import TypeInformation
from pystate.connectors.file_system.bucket_assigner import BucketAssigner
from pystate.connectors.file_system.compaction import FileCompactor, FileCompactStrategy
from pystate.connectors.file_system.file_sink import FileSink
from pystate.connectors.file_system.formats.file_content import TextEncoding
from pystate.connectors.file_system.formats.split_format import SplitFormat, TextLines
from pystate.connectors.file_system.output_file_config import OutputFileConfig
from pystate.connectors.file_system.rolling_policy import CheckpointRollingPolicy, PartFileInfo, RollingPolicy
from pystate.connectors.file_system.split_file_source import SplitFileSource
from pystate.datastream.connectors.file_paths import qualified_paths

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "BucketAssigner",
    "BulkFormat",
    "CheckpointRollingPolicy",
    "FileCompactStrategy",
    "FileCompactor",
    "FileEnumeratorProvider",
    "FileFormat",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "FileSplitAssignerProvider",
    "OutputFileConfig",
    "PartFileInfo",
    "RollingPolicy",
    "StreamFormat",
    "StreamingFileSink",
]

B = TypeVar("B", bound="StreamingFileSink.BaseBuilder")


class FileFormat(ABC):
    """How the bytes of a file become elements.

    Attributes:
        single_column: The elements are values, not rows.
    """

    single_column = False

    @abstractmethod
    def in_slots(self, spark: SparkSession | None, paths: Sequence[str]) -> SplitFormat:
        """Return what reads files of this format.

        Args:
            spark: The session; None for none.
            paths: Of the files.

        Raises:
            JobGraphError: Nothing says which columns they have.
        """


class StreamFormat(FileFormat):
    """A format that is read record by record."""

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8", errors: str = "strict") -> StreamFormat:
        """Each line of a text file, without its line end, is an element.

        Args:
            charset_name: The charset of the files, as Java or Python calls it.
            errors: What becomes of bytes that are no text in it (ours): `strict` fails the job, `replace` reads U+FFFD, as
                Flink does, `ignore` leaves them out, `backslashreplace` writes them down.

        Raises:
            JobGraphError: There is no such charset, or no such choice.
        """
        return _TextLines(TextEncoding(charset_name, errors, "text_line_format()"))


class BulkFormat(FileFormat):
    """A format that is read in batches of rows."""


class _TextLines(StreamFormat):
    single_column = True

    def __init__(self, encoding: TextEncoding) -> None:
        self._encoding = encoding

    def in_slots(self, spark: SparkSession | None, paths: Sequence[str]) -> SplitFormat:
        del spark, paths
        return TextLines(self._encoding)


class FileSource:
    """The records of files.

    Args:
        paths: A folder, a file, a pattern, or several of them.
        monitor_interval_ms: None reads what is there and ends; else the folder is watched for new files.
        max_files_per_epoch: At most this many files go into one epoch; None for no bound.
        file_format: How to read them; lines of text by default.
    """

    def __init__(
        self,
        paths: str | Sequence[str],
        monitor_interval_ms: int | None,
        max_files_per_epoch: int | None = None,
        file_format: FileFormat | None = None,
    ) -> None:
        self.paths = (paths,) if isinstance(paths, str) else tuple(paths)
        self.monitor_interval_ms = monitor_interval_ms
        self.max_files_per_epoch = max_files_per_epoch
        self._format = file_format or StreamFormat.text_line_format()

    @property
    def bounded(self) -> bool:
        """Whether the source ends."""
        return self.monitor_interval_ms is None

    @property
    def single_column(self) -> bool:
        """Whether the elements are values, not rows."""
        return self._format.single_column

    @staticmethod
    def for_record_stream_format(stream_format: StreamFormat, *paths: str) -> FileSourceBuilder:
        """Begin to describe a source that is read record by record, as PyFlink does."""
        return FileSourceBuilder(paths, stream_format)

    @staticmethod
    def for_bulk_file_format(bulk_format: BulkFormat, *paths: str) -> FileSourceBuilder:
        """Begin to describe a source that is read in batches of rows, as PyFlink does."""
        return FileSourceBuilder(paths, bulk_format)

    def in_slots(self, spark: SparkSession | None, name: str) -> tuple[SplitFileSource, TypeInformation]:
        """Return the source of splits that reads the files, and the type of its elements.

        Args:
            spark: The session; None for none.
            name: Of the source, for errors.

        Raises:
            JobGraphError: Nothing says which columns the files have.
        """
        split_format = self._format.in_slots(spark, self.paths)
        paths, most_files = qualified_paths(spark, self.paths), self.max_files_per_epoch
        source = SplitFileSource(paths, self.monitor_interval_ms, split_format, name, most_files)
        return source, split_format.element_type


class FileEnumeratorProvider:
    """Names ways to list files; they are listed with their folders, and left whole, whichever is chosen."""

    @staticmethod
    def default_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Return the one that cuts large files into parts."""
        return FileEnumeratorProvider()

    @staticmethod
    def default_non_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Return the one that leaves files whole."""
        return FileEnumeratorProvider()


class FileSplitAssignerProvider:
    """Names ways to hand out files; readers get them in turn, whichever is chosen."""

    @staticmethod
    def locality_aware_split_assigner(*local_splits: object) -> FileSplitAssignerProvider:
        """Return the one that looks where a file is."""
        return FileSplitAssignerProvider()


class FileSourceBuilder:
    """Collects the options of a `FileSource`."""

    def __init__(self, paths: Sequence[str], file_format: FileFormat) -> None:
        if not paths:
            message = "A source of files needs a path."
            raise JobGraphError(message, where="FileSource")
        self._paths = paths
        self._format = file_format
        self._monitor_interval_ms: int | None = None
        self._max_files_per_epoch: int | None = None

    def monitor_continuously(self, discovery_interval: Duration) -> FileSourceBuilder:
        """Watch the folder for new files; makes the source unbounded."""
        self._monitor_interval_ms = discovery_interval.to_millis()
        return self

    def set_max_files_per_epoch(self, count: int) -> FileSourceBuilder:
        """Bound what one epoch of the micro-batch engine reads (ours)."""
        if count < 1:
            message = f"An epoch can't read {count} files at most."
            raise JobGraphError(message, where="FileSource")
        self._max_files_per_epoch = count
        return self

    def set_file_enumerator(self, file_enumerator: FileEnumeratorProvider) -> FileSourceBuilder:
        """Say how files are listed; has no effect: see `FileEnumeratorProvider`."""
        return self

    def set_split_assigner(self, split_assigner: FileSplitAssignerProvider) -> FileSourceBuilder:
        """Say who reads which file; has no effect: see `FileSplitAssignerProvider`."""
        return self

    def process_static_file_set(self) -> FileSourceBuilder:
        """Read what is there and end; the default."""
        self._monitor_interval_ms = None
        return self

    def build(self) -> FileSource:
        """Return the source."""
        return FileSource(self._paths, self._monitor_interval_ms, self._max_files_per_epoch, self._format)


class StreamingFileSink:
    """`FileSink` under its older name; `add_sink` takes what its builders make."""

    class BaseBuilder:
        """Collects what both kinds of sinks have.

        Args:
            builder: That of `FileSink`.
        """

        def __init__(self, builder: FileSink.BaseBuilder) -> None:
            self._builder = builder

        def with_bucket_check_interval(self: B, interval: int) -> B:
            """Say how often files are looked at by the clock, ms."""
            self._builder.with_bucket_check_interval(interval)
            return self

        def with_bucket_assigner(self: B, bucket_assigner: BucketAssigner) -> B:
            """Say which folder an element goes to."""
            self._builder.with_bucket_assigner(bucket_assigner)
            return self

        def with_rolling_policy(self: B, policy: RollingPolicy) -> B:
            """Say when a file ends."""
            self._builder.with_rolling_policy(policy)
            return self

        def with_output_file_config(self: B, output_file_config: OutputFileConfig) -> B:
            """Say what files are called."""
            self._builder.with_output_file_config(output_file_config)
            return self

        def build(self) -> FileSink:
            """Return the sink."""
            return self._builder.build()

    class DefaultRowFormatBuilder(BaseBuilder):
        """Describes a sink that writes element by element."""

    class DefaultBulkFormatBuilder(BaseBuilder):
        """Describes a sink whose files are written as a whole."""

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder) -> StreamingFileSink.DefaultRowFormatBuilder:
        """Begin a sink that writes element by element."""
        return StreamingFileSink.DefaultRowFormatBuilder(FileSink.for_row_format(base_path, encoder))

    @staticmethod
    def for_bulk_format(base_path: str, writer_factory: BulkWriterFactory) -> StreamingFileSink.DefaultBulkFormatBuilder:
        """Begin a sink whose files are written as a whole."""
        return StreamingFileSink.DefaultBulkFormatBuilder(FileSink.for_bulk_format(base_path, writer_factory))
