"""The split-based file source, which `FileSource` uses on both engines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from pystate.common.errors import RestoreError
from pystate.common.files.foreign_json import parse_json
from pystate.common.overrides import override
from pystate.common.type_info import TypeKind
from pystate.connectors.bad_records import BadRecords
from pystate.connectors.file_system.file_enumerator import FileSplitEnumerator
from pystate.connectors.file_system.file_listing import found_files, uri_of_spark
from pystate.connectors.file_system.file_reader import FileSourceReader
from pystate.connectors.file_system.file_splits import FileSourceSplit
from pystate.connectors.file_system.formats.split_format import SplitFormat
from pystate.connectors.read_by_spark import GoesOnAfterSpark
from pystate.connectors.source import Boundedness, Source, SourceReaderContext, SplitEnumeratorContext

_LOG = re.compile(r"([0-9]+)(\.compact)?")


class SplitFileSource(Source[Any, FileSourceSplit], GoesOnAfterSpark):
    """Reads records from files.

    Args:
        paths: Folders, files and patterns, as URIs or absolute.
        interval_ms: How often to look for new files; None reads the existing files and ends.
        split_format: The file format.
        name: Of the source, for errors.
        most_files: The maximum number of files per epoch of the micro-batch engine; None bounds by bytes only.
        bad_records: What is done with records that are none of the format; None fails the job.
    """

    def __init__(
        self,
        paths: tuple[str, ...],
        interval_ms: int | None,
        split_format: SplitFormat,
        name: str,
        most_files: int | None = None,
        bad_records: BadRecords | None = None,
    ) -> None:
        self._bad_records = bad_records
        self._paths = paths
        self._interval_ms = interval_ms
        self._format = split_format
        self._name = name
        self._most_files = most_files
        self._known: list[str] = []
        self._enumerator_here: FileSplitEnumerator | None = None  # in the slot that has it

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED unless the source looks for new files."""
        return Boundedness.BOUNDED if self._interval_ms is None else Boundedness.CONTINUOUS_UNBOUNDED

    @property
    @override
    def scarce_splits(self) -> str | None:
        return None if self._interval_ms is None else "files"

    def go_on_after(self, offset: str, log: Mapping[str, bytes]) -> None:
        """Skip the files that Spark has read, by its log."""
        try:
            upto = int(parse_json(offset)["logOffset"])
            entries = [entry for name, data in log.items() if _is_read(name, upto) for entry in _entries(data)]
            self._known = list(dict.fromkeys(uri_of_spark(str(entry["path"])) for entry in entries))
        except (ValueError, TypeError, KeyError) as error:
            message = "The snapshot was written with another kind of source in the place of these files."
            raise RestoreError(message, where=self._name, hint="give the new source another uid") from error

    def begin_anew(self) -> None:
        """Read all files."""
        self._known = []

    def create_enumerator(self, context: SplitEnumeratorContext[FileSourceSplit]) -> FileSplitEnumerator:
        """Return an enumerator of the existing files."""
        return self._enumerator(context, self._known, [])

    def restore_enumerator(self, context: SplitEnumeratorContext[FileSourceSplit], checkpoint: Any) -> FileSplitEnumerator:
        """Return an enumerator of the unassigned and the new files."""
        known, waiting = checkpoint
        return self._enumerator(context, [str(uri) for uri in known], [self.restore_split(plain) for plain in waiting])

    def _enumerator(
        self, context: SplitEnumeratorContext[FileSourceSplit], known: list[str], waiting: list[FileSourceSplit]
    ) -> FileSplitEnumerator:
        columns = self._format.element_type.row_names if self._format.element_type.kind is TypeKind.ROW else ()
        list_files = partial(found_files, self._paths, columns=columns)
        self._enumerator_here = FileSplitEnumerator(context, list_files, self._interval_ms, known, waiting)
        return self._enumerator_here

    def _has_news(self) -> bool:
        return self._enumerator_here is not None and self._enumerator_here.has_news()

    def create_reader(self, context: SourceReaderContext) -> FileSourceReader:
        """Return the reader."""
        return FileSourceReader(
            context,
            self._format,
            self._interval_ms,
            most_files=self._most_files,
            has_news=self._has_news,
            bad_records=self._bad_records,
        )

    def restore_split(self, plain: Any) -> FileSourceSplit:
        """Return the split from its plain form."""
        return FileSourceSplit.of(plain)


def _is_read(name: str, upto: int) -> bool:
    """Return whether a log file covers batches up to the given one; `9.compact` covers all batches up to 9."""
    found = _LOG.fullmatch(name)
    return found is not None and int(found[1]) <= upto


def _entries(data: bytes) -> list[dict[str, Any]]:
    """Return the entries of a file of Spark's log: a line with a version, and one for each file."""
    return [parse_json(line) for line in data.decode().splitlines()[1:] if line]
