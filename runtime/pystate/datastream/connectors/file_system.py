"""File source and file sink, with the names of `pyflink.datastream.connectors.file_system`."""

from __future__ import annotations

from typing import TypeVar

from pystate.common.serialization import BulkWriterFactory, Encoder
from pystate.connectors.file_system.bucket_assigner import BucketAssigner
from pystate.connectors.file_system.compaction import FileCompactor, FileCompactStrategy
from pystate.connectors.file_system.file_sink import FileSink
from pystate.connectors.file_system.file_source import (
    BulkFormat,
    FileEnumeratorProvider,
    FileFormat,
    FileSource,
    FileSourceBuilder,
    FileSplitAssignerProvider,
    StreamFormat,
)
from pystate.connectors.file_system.output_file_config import OutputFileConfig
from pystate.connectors.file_system.rolling_policy import CheckpointRollingPolicy, PartFileInfo, RollingPolicy

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


class StreamingFileSink:
    """`FileSink` under its older name; pass it to `add_sink`."""

    class BaseBuilder:
        """Base of both builders.

        Args:
            builder: The builder of the `FileSink`.
        """

        def __init__(self, builder: FileSink.BaseBuilder) -> None:
            self._builder = builder

        def with_bucket_check_interval(self: B, interval: int) -> B:
            """Set the interval of the processing-time checks for rolling, ms."""
            self._builder.with_bucket_check_interval(interval)
            return self

        def with_bucket_assigner(self: B, bucket_assigner: BucketAssigner) -> B:
            """Set the bucket assigner."""
            self._builder.with_bucket_assigner(bucket_assigner)
            return self

        def with_rolling_policy(self: B, policy: RollingPolicy) -> B:
            """Set the rolling policy."""
            self._builder.with_rolling_policy(policy)
            return self

        def with_output_file_config(self: B, output_file_config: OutputFileConfig) -> B:
            """Set the prefix and suffix of file names."""
            self._builder.with_output_file_config(output_file_config)
            return self

        def build(self) -> FileSink:
            """Return the sink."""
            return self._builder.build()

    class DefaultRowFormatBuilder(BaseBuilder):
        """Builds a sink that encodes element by element."""

    class DefaultBulkFormatBuilder(BaseBuilder):
        """Builds a sink for bulk formats."""

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder) -> StreamingFileSink.DefaultRowFormatBuilder:
        """Return a builder of a sink that encodes element by element."""
        return StreamingFileSink.DefaultRowFormatBuilder(FileSink.for_row_format(base_path, encoder))

    @staticmethod
    def for_bulk_format(base_path: str, writer_factory: BulkWriterFactory) -> StreamingFileSink.DefaultBulkFormatBuilder:
        """Return a builder of a sink for bulk formats."""
        return StreamingFileSink.DefaultBulkFormatBuilder(FileSink.for_bulk_format(base_path, writer_factory))
