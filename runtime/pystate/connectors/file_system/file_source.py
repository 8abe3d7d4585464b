"""`FileSource`, and the formats that it reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pystate.common.errors import JobGraphError
from pystate.common.overrides import override
from pystate.common.time import Duration
from pystate.common.type_info import TypeInformation, Types
from pystate.common.watermark_strategy import WatermarkStrategy
from pystate.connectors.bad_records import BadRecords
from pystate.connectors.file_system.file_paths import qualified_paths
from pystate.connectors.file_system.formats.file_content import TextEncoding
from pystate.connectors.file_system.formats.split_format import SplitFormat, TextLines
from pystate.connectors.file_system.split_file_source import SplitFileSource
from pystate.connectors.translated_source import TranslatedSource
from pystate.core.api.transformations import SourceTransformation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class FileFormat(ABC):
    """A format that reads elements from files.

    Attributes:
        single_column: Whether the elements are values, not rows.
    """

    single_column = False

    @property
    def element_type(self) -> TypeInformation | None:
        """The type of the elements, where it is known without a session and files; None where it isn't."""
        return None

    @abstractmethod
    def in_slots(self, spark: SparkSession | None, paths: Sequence[str]) -> SplitFormat:
        """Return the reader of this format for slots.

        Args:
            spark: The session, if there is one.
            paths: The paths of the files.

        Raises:
            JobGraphError: Their columns are unknown.
        """


class StreamFormat(FileFormat):
    """A format whose files are read record by record."""

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8", errors: str = "strict") -> StreamFormat:
        """Each line of a text file, without its line end, is an element.

        Args:
            charset_name: The charset of the files, by its name in Java or Python.
            errors: How invalid bytes are handled (pystate only): `strict` fails the job, `replace` reads U+FFFD, as Flink
                does, `ignore` drops them, `backslashreplace` escapes them.

        Raises:
            JobGraphError: There is no such charset, or `errors` is invalid.
        """
        return _TextLines(TextEncoding(charset_name, errors, "text_line_format()"))


class BulkFormat(FileFormat):
    """A format whose files are read in batches of rows."""


class _TextLines(StreamFormat):
    single_column = True
    element_type = Types.STRING()

    def __init__(self, encoding: TextEncoding) -> None:
        self._encoding = encoding

    def in_slots(self, spark: SparkSession | None, paths: Sequence[str]) -> SplitFormat:
        del spark, paths
        return TextLines(self._encoding)


class FileSource(TranslatedSource):
    """A source that reads files.

    Args:
        paths: A folder, a file, a pattern, or several of them.
        monitor_interval_ms: How often to look for new files; None reads the existing files and ends.
        max_files_per_epoch: The maximum number of files per epoch; None for no bound.
        file_format: The format; lines of text by default.
        bad_records: What is done with records that are none of the format; None fails the job.
    """

    def __init__(
        self,
        paths: str | Sequence[str],
        monitor_interval_ms: int | None,
        max_files_per_epoch: int | None = None,
        file_format: FileFormat | None = None,
        bad_records: BadRecords | None = None,
    ) -> None:
        self._bad_records = bad_records or BadRecords.fail()
        self.paths = (paths,) if isinstance(paths, str) else tuple(paths)
        self.monitor_interval_ms = monitor_interval_ms
        self.max_files_per_epoch = max_files_per_epoch
        self._format = file_format or StreamFormat.text_line_format()

    @property
    def bounded(self) -> bool:
        """Whether the source is bounded."""
        return self.monitor_interval_ms is None

    @property
    def single_column(self) -> bool:
        """Whether the elements are values, not rows."""
        return self._format.single_column

    @staticmethod
    def for_record_stream_format(stream_format: StreamFormat, *paths: str) -> FileSourceBuilder:
        """Return a builder of a source that reads record by record."""
        return FileSourceBuilder(paths, stream_format)

    @staticmethod
    def for_bulk_file_format(bulk_format: BulkFormat, *paths: str) -> FileSourceBuilder:
        """Return a builder of a source that reads in batches of rows."""
        return FileSourceBuilder(paths, bulk_format)

    @override
    def to_step(
        self,
        spark: Callable[[], SparkSession],
        name: str,
        strategy: WatermarkStrategy | None,
        type_info: TypeInformation | None,
    ) -> SourceTransformation:
        return SourceTransformation(
            name=name,
            in_slots=lambda session: self.in_slots(session, name),
            single_column=self.single_column,
            bounded=self.bounded,
            paths=self.paths,
            watermark_strategy=strategy,
            has_side_outputs=self._bad_records.tag is not None,
            output_type=type_info or self._format.element_type,
        )

    def in_slots(self, spark: SparkSession | None, name: str) -> tuple[SplitFileSource, TypeInformation]:
        """Return the split-based source that reads the files, and the type of its elements.

        Args:
            spark: The session, if there is one.
            name: The name of the source, for errors.

        Raises:
            JobGraphError: The columns of the files are unknown.
        """
        split_format = self._format.in_slots(spark, self.paths)
        paths, most_files = qualified_paths(spark, self.paths), self.max_files_per_epoch
        if self._bad_records.skips and not split_format.refuses_records:
            message = (
                "The records of this format can't be told from each other where one is wrong: a bad file fails the job."
            )
            raise JobGraphError(message, where=name, hint="leave set_bad_records() out")
        source = SplitFileSource(paths, self.monitor_interval_ms, split_format, name, most_files, self._bad_records)
        return source, split_format.element_type


class FileEnumeratorProvider:
    """Exists for Flink's names; files are always listed recursively and never split."""

    @staticmethod
    def default_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Return Flink's default; has no effect here."""
        return FileEnumeratorProvider()

    @staticmethod
    def default_non_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Return Flink's enumerator that doesn't split files."""
        return FileEnumeratorProvider()


class FileSplitAssignerProvider:
    """Exists for Flink's names; files are always assigned to readers in turn."""

    @staticmethod
    def locality_aware_split_assigner(*local_splits: object) -> FileSplitAssignerProvider:
        """Return Flink's assigner by locality; has no effect here."""
        return FileSplitAssignerProvider()


class FileSourceBuilder:
    """Builds a `FileSource`."""

    def __init__(self, paths: Sequence[str], file_format: FileFormat) -> None:
        if not paths:
            message = "A source of files needs a path."
            raise JobGraphError(message, where="FileSource")
        self._paths = paths
        self._format = file_format
        self._monitor_interval_ms: int | None = None
        self._max_files_per_epoch: int | None = None
        self._bad_records = BadRecords.fail()

    def set_bad_records(self, bad_records: BadRecords) -> FileSourceBuilder:
        """Set what is done with records that are none of the format (pystate only); by default they fail the job.

        Raises:
            JobGraphError: It isn't what `BadRecords` makes.
        """
        self._bad_records = BadRecords.checked("set_bad_records", bad_records)
        return self

    def monitor_continuously(self, discovery_interval: Duration) -> FileSourceBuilder:
        """Look for new files continuously, which makes the source unbounded."""
        self._monitor_interval_ms = discovery_interval.to_millis()
        return self

    def set_max_files_per_epoch(self, count: int) -> FileSourceBuilder:
        """Set how many files one epoch of the micro-batch engine reads at most (pystate only)."""
        if count < 1:
            message = f"An epoch can't read {count} files at most."
            raise JobGraphError(message, where="FileSource")
        self._max_files_per_epoch = count
        return self

    def set_file_enumerator(self, file_enumerator: FileEnumeratorProvider) -> FileSourceBuilder:
        """Set how files are listed; has no effect: see `FileEnumeratorProvider`."""
        return self

    def set_split_assigner(self, split_assigner: FileSplitAssignerProvider) -> FileSourceBuilder:
        """Set how files are assigned; has no effect: see `FileSplitAssignerProvider`."""
        return self

    def process_static_file_set(self) -> FileSourceBuilder:
        """Read the existing files and end; the default."""
        self._monitor_interval_ms = None
        return self

    def build(self) -> FileSource:
        """Return the source."""
        return FileSource(self._paths, self._monitor_interval_ms, self._max_files_per_epoch, self._format, self._bad_records)
