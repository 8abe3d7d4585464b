"""Formats source positions as text for users, without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pystate.common.errors import CorruptSnapshotError
from pystate.common.files.foreign_json import parse_json
from pystate.connectors.installed_connectors import spark_formats
from pystate.core.snapshot.metadata import SourcePosition
from pystate.runtime.engines.micro_batch.spark.spark_checkpoint import (
    NO_OFFSET,
    captured_sources,
    source_log,
    source_offsets,
    unpack_archive,
)


@dataclass(frozen=True)
class SourceProgress:
    """The position of one source.

    Attributes:
        uid: The source's uid in the job.
        words: Its position as text.
        offset: Its offset as Spark stores it.
    """

    uid: str
    words: str
    offset: str

    def to_json(self) -> dict[str, str]:
        """Return it as data for JSON."""
        return {"uid": self.uid, "position": self.words, "offset": self.offset}


def check_logs(position: SourcePosition, archive: bytes) -> dict[str, bytes]:
    """Return the files in the archive of Spark's logs.

    Raises:
        CorruptSnapshotError: The archive is damaged, or not the one of the position.
    """
    files = unpack_archive(archive)
    if position.epoch >= 0:
        try:
            offsets = source_offsets(files[f"offsets/{position.epoch}"])
            known = len(captured_sources(files))
        except (KeyError, ValueError) as error:
            message = f"The archive of Spark's logs has no readable entry for batch {position.epoch}."
            raise CorruptSnapshotError(message) from error
        if not len(offsets) == known == len(position.sources):
            message = f"The archive of Spark's logs is about {known} sources, the metadata about {len(position.sources)}."
            raise CorruptSnapshotError(message)
    return files


def source_progress(position: SourcePosition, archive: bytes) -> list[SourceProgress]:
    """Return how far each source was read.

    Args:
        position: The position in the metadata.
        archive: Spark's logs.

    Raises:
        CorruptSnapshotError: The logs are damaged.
    """
    files = check_logs(position, archive)
    logs = [source_log(files, source.log) for source in captured_sources(files)] if position.epoch >= 0 else []
    progress = []
    for number, source in enumerate(position.sources):
        offset = str(source.get("offset") or NO_OFFSET)
        log = logs[number] if number < len(logs) else {}
        progress.append(SourceProgress(str(source.get("uid") or source.get("index") or number), words(offset, log), offset))
    return progress


def words(offset: str, log: Mapping[str, bytes]) -> str:
    """Return an offset as text; for a source of unknown kind, the offset itself.

    Args:
        offset: The offset as Spark stores it.
        log: The files of the source's own log, by name.
    """
    if offset == NO_OFFSET:
        return "not read yet"
    try:
        parsed: Any = parse_json(offset)
    except ValueError:
        return offset
    if isinstance(parsed, int) and not isinstance(parsed, bool):
        return f"offset {parsed:,}"
    if isinstance(parsed, dict) and parsed.keys() == {"index", "checksum"} and type(parsed["index"]) is int:
        return f"{parsed['index']:,} element{'' if parsed['index'] == 1 else 's'} of the collection read"
    return next((said for one in spark_formats() if (said := one.describe_offset(parsed, log)) is not None), offset)
