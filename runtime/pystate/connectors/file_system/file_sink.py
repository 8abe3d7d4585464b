"""`FileSink`: writes a stream to files that become visible when a checkpoint completes."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any, TypeVar

from pystate.common.errors import JobGraphError
from pystate.common.serialization import BulkWriterFactory, Encoder, SimpleStringEncoder
from pystate.common.type_info import TypeInformation
from pystate.connectors.file_system.bucket_assigner import BucketAssigner, DateTimeBucketAssigner
from pystate.connectors.file_system.compaction import ConcatFileCompactor, FileCompactor, FileCompactStrategy
from pystate.connectors.file_system.file_committer import FileCommitter
from pystate.connectors.file_system.file_writer import FileWriter
from pystate.connectors.file_system.formats.part_writer import BulkPartWriter, PartWriter, RowPartWriter
from pystate.connectors.file_system.output_file_config import OutputFileConfig
from pystate.connectors.file_system.rolling_policy import CheckpointRollingPolicy, RollingPolicy
from pystate.connectors.sink import (
    Committer,
    CommitterInitContext,
    Sink,
    SupportsCommitter,
    SupportsWriterState,
    WriterInitContext,
)
from pystate.connectors.typed_sink import SupportsElementType
from pystate.core.file_systems.recoverable_files import RecoverableFile
from pystate.core.records.printed import text_of

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
CHECK_INTERVAL_MS = 60_000

B = TypeVar("B", bound="FileSink.BaseBuilder")


class FileSink(
    Sink[Any],
    SupportsWriterState[Any, dict[str, Any]],
    SupportsCommitter[dict[str, Any]],
    SupportsElementType,
):
    """Writes elements to files; made by `for_row_format` or `for_bulk_format`.

    Args:
        base_path: The folder of the buckets, which contain the part files.
        file_format: An `Encoder`, or a `BulkWriterFactory`.
        assigner: Determines the bucket of an element.
        policy: Decides when a file is rolled.
        config: The prefix and suffix of file names.
        check_interval_ms: The interval of the processing-time checks for rolling.
        compaction: When and how files are compacted; None for never.
    """

    def __init__(
        self,
        *,
        base_path: str,
        file_format: Encoder | BulkWriterFactory,
        assigner: BucketAssigner,
        policy: RollingPolicy,
        config: OutputFileConfig,
        check_interval_ms: int,
        compaction: tuple[FileCompactStrategy, FileCompactor] | None = None,
    ) -> None:
        self._settings = (base_path, assigner, policy, config, check_interval_ms)
        self._compaction = compaction
        self._format = file_format
        self._element_type: TypeInformation | None = None

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder) -> FileSink.RowFormatBuilder:
        """Return a builder of a sink that encodes element by element.

        Args:
            base_path: A folder, or a URL of `hdfs://`, `s3://` and the like.
            encoder: Returns the bytes of an element.
        """
        return FileSink.RowFormatBuilder(base_path, _checked(encoder, Encoder, "for_row_format"))

    @staticmethod
    def for_bulk_format(base_path: str, writer_factory: BulkWriterFactory) -> FileSink.BulkFormatBuilder:
        """Return a builder of a sink for bulk formats such as Parquet: every checkpoint closes the files.

        Args:
            base_path: A folder, or a URL of `hdfs://`, `s3://` and the like.
            writer_factory: Makes the writer of a file.
        """
        return FileSink.BulkFormatBuilder(base_path, _checked(writer_factory, BulkWriterFactory, "for_bulk_format"))

    def get_transformer(self) -> None:
        """Return None: the stream is not transformed."""

    def for_elements_of(self, type_info: TypeInformation | None) -> FileSink:
        """Return the sink for a stream's type, which determines how elements become text."""
        base_path, assigner, policy, config, interval = self._settings
        sink = FileSink(
            base_path=base_path,
            file_format=self._format,
            assigner=assigner,
            policy=policy,
            config=config,
            check_interval_ms=interval,
            compaction=self._compaction,
        )
        sink._element_type = type_info
        return sink

    @property
    def guarantee_reason(self) -> str:
        """Why each element is in exactly one visible file."""
        return "files appear when a checkpoint completes"

    # -- in a slot

    def create_writer(self, context: WriterInitContext) -> FileWriter:
        """Return the writer of one subtask."""
        base_path, assigner, policy, config, interval = self._settings
        compaction = self._compaction
        return FileWriter(base_path, self._part_writer, assigner, policy, config, interval, context, compaction)

    def restore_writer(self, context: WriterInitContext, recovered_state: Sequence[dict[str, Any]]) -> FileWriter:
        """Return the writer of one subtask, which resumes files in progress."""
        writer = self.create_writer(context)
        writer.restore(recovered_state)
        return writer

    def create_committer(self, context: CommitterInitContext) -> Committer[dict[str, Any]]:
        """Return the committer, which makes files visible."""
        return FileCommitter()

    def _part_writer(self, file: RecoverableFile) -> PartWriter:
        made = self._format
        if isinstance(made, BulkWriterFactory):
            return BulkPartWriter(file, made)
        if isinstance(made, SimpleStringEncoder):
            show, charset = text_of(self._element_type, "FileSink"), made.charset
            return RowPartWriter(file, lambda element: f"{show(element)}\n".encode(charset))
        return RowPartWriter(file, made.encode)

    class BaseBuilder:
        """Base of both builders.

        Args:
            base_path: See `FileSink`.
            file_format: Likewise.
        """

        _policy: RollingPolicy

        def __init__(self, base_path: str, file_format: Encoder | BulkWriterFactory) -> None:
            if not isinstance(base_path, str) or not base_path.strip():
                message = f"The base path of a FileSink is a path or a URL, not {base_path!r}."
                raise JobGraphError(message)
            # a slot may have another working directory
            self._base_path = base_path if _SCHEME.match(base_path) else os.path.abspath(os.path.expanduser(base_path))
            self._format = file_format
            self._assigner: BucketAssigner = DateTimeBucketAssigner()
            self._config = OutputFileConfig.builder().build()
            self._interval = CHECK_INTERVAL_MS
            self._compaction: tuple[FileCompactStrategy, FileCompactor] | None = None

        def with_bucket_check_interval(self: B, interval: int) -> B:
            """Set the interval of the processing-time checks for rolling, ms; elements and checkpoints check in any case."""
            if not isinstance(interval, int) or isinstance(interval, bool) or interval <= 0:
                message = f"with_bucket_check_interval() takes milliseconds, not {interval!r}."
                raise JobGraphError(message)
            self._interval = interval
            return self

        def with_bucket_assigner(self: B, bucket_assigner: BucketAssigner) -> B:
            """Set the bucket assigner; by default there is a bucket for each hour."""
            self._assigner = _checked(bucket_assigner, BucketAssigner, "with_bucket_assigner")
            return self

        def with_output_file_config(self: B, output_file_config: OutputFileConfig) -> B:
            """Set the prefix and suffix of file names."""
            self._config = _checked(output_file_config, OutputFileConfig, "with_output_file_config")
            return self

        def with_rolling_policy(self: B, rolling_policy: RollingPolicy) -> B:
            """Set the rolling policy."""
            self._policy = _checked(rolling_policy, RollingPolicy, "with_rolling_policy")
            return self

        def enable_compact(self: B, strategy: FileCompactStrategy, compactor: FileCompactor) -> B:
            """Hold finished files back, and combine them before they become visible.

            Raises:
                JobGraphError: Files of this format can't be concatenated.
            """
            strategy = _checked(strategy, FileCompactStrategy, "enable_compact")
            compactor = _checked(compactor, FileCompactor, "enable_compact")
            if isinstance(compactor, ConcatFileCompactor) and not _can_follow_another(self._format):
                message = "Files of this format can't stand one after the other: each has a beginning or end of its own."
                hint = "take larger files: a longer checkpoint interval"
                raise JobGraphError(message, where="enable_compact", hint=hint)
            self._compaction = strategy, compactor
            return self

        def disable_compact(self: B) -> B:
            """Don't compact files. Files that wait in a savepoint become visible as they are."""
            self._compaction = None
            return self

        def build(self) -> FileSink:
            """Return the sink."""
            return FileSink(
                base_path=self._base_path,
                file_format=self._format,
                assigner=self._assigner,
                policy=self._policy,
                config=self._config,
                check_interval_ms=self._interval,
                compaction=self._compaction,
            )

    class RowFormatBuilder(BaseBuilder):
        """Builds a sink that encodes element by element."""

        _policy = RollingPolicy.default_rolling_policy()

    class BulkFormatBuilder(BaseBuilder):
        """Builds a sink for bulk formats."""

        _policy = RollingPolicy.on_checkpoint_rolling_policy()

        def with_rolling_policy(self: B, rolling_policy: RollingPolicy) -> B:
            """Set when a file is rolled, in addition to each checkpoint.

            Raises:
                JobGraphError: The policy may keep a file open across a checkpoint.
            """
            if not isinstance(rolling_policy, CheckpointRollingPolicy):
                message = "A file of a bulk format can't stay open over a checkpoint."
                hint = "use RollingPolicy.on_checkpoint_rolling_policy(), or extend CheckpointRollingPolicy"
                raise JobGraphError(message, where="with_rolling_policy", hint=hint)
            self._policy = rolling_policy
            return self


def _can_follow_another(file_format: Encoder | BulkWriterFactory) -> bool:
    return isinstance(file_format, Encoder) or file_format.can_be_concatenated


def _checked(value: Any, kind: type[Any], method: str) -> Any:
    if not isinstance(value, kind):
        message = f"{method}() takes {'an' if kind.__name__[0] in 'EO' else 'a'} {kind.__name__}, not {value!r}."
        raise JobGraphError(message)
    return value
