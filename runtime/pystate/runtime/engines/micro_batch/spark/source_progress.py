"""Formats source positions as text for users, without Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pystate.common.errors import CorruptSnapshotError
from pystate.common.files.foreign_json import parse_json
from pystate.connectors.kafka.offsets import EARLIEST
from pystate.core.snapshot.metadata import SourcePosition
from pystate.runtime.engines.micro_batch.spark.spark_checkpoint import (
    NO_OFFSET,
    captured_sources,
    source_offsets,
    unpack_archive,
)

_LOG_ENTRY = re.compile(r"sources/(\d+)/(\d+)(\.compact)?")


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
    logs = [source.log for source in captured_sources(files)] if position.epoch >= 0 else []
    progress = []
    for number, source in enumerate(position.sources):
        offset = str(source.get("offset") or NO_OFFSET)
        log = logs[number] if number < len(logs) else -1
        progress.append(
            SourceProgress(str(source.get("uid") or source.get("index") or number), words(offset, files, log), offset)
        )
    return progress


def words(offset: str, files: Mapping[str, bytes], log: int) -> str:
    """Return an offset as text; for a source of unknown kind, the offset itself.

    Args:
        offset: The offset as Spark stores it.
        files: Spark's logs.
        log: The number of the source's own log.
    """
    if offset == NO_OFFSET:
        return "not read yet"
    try:
        parsed: Any = parse_json(offset)
    except ValueError:
        return offset
    if isinstance(parsed, int) and not isinstance(parsed, bool):
        return f"offset {parsed:,}"
    if not isinstance(parsed, dict) or not parsed:
        return offset
    if type(parsed.get("logOffset")) is int:
        return _file_words(parsed["logOffset"], files, log)
    if type(parsed.get("index")) is int and parsed.keys() == {"index", "checksum"}:
        return f"{_counted(parsed['index'], 'element')} of the collection read"
    if all(_is_partitions(partitions) for partitions in parsed.values()):
        return "; ".join(_topic_words(topic, partitions) for topic, partitions in sorted(parsed.items()))
    return offset


def _file_words(log_offset: int, files: Mapping[str, bytes], log: int) -> str:
    """Count the files in a file source's log: a compact entry contains all earlier ones."""
    entries: dict[int, tuple[bool, bytes]] = {}
    for name, content in files.items():
        match = _LOG_ENTRY.fullmatch(name)
        if match and int(match[1]) == log and int(match[2]) <= log_offset:
            entries[int(match[2])] = (match[3] is not None, content)
    first = max((number for number, (compact, _) in entries.items() if compact), default=0)
    if not entries or set(range(first, log_offset + 1)) - entries.keys():
        return f"file batches up to log offset {log_offset} read"
    count = sum(
        content.count(b"\n") for number, (_, content) in entries.items() if number >= first
    )  # the first line of an entry is its version, and no entry ends with a newline
    return f"{_counted(count, 'file')} read (log offset {log_offset})"


def _is_partitions(value: Any) -> bool:
    return isinstance(value, dict) and all(name.isdigit() and type(at) is int for name, at in value.items()) and bool(value)


def _topic_words(topic: str, partitions: Mapping[str, int]) -> str:
    at = ", ".join(f"{number} at {_at(partitions[number])}" for number in sorted(partitions, key=int))
    return f"topic {topic}: partition{'' if len(partitions) == 1 else 's'} {at}"


def _at(offset: int) -> str:
    return "its beginning" if offset == EARLIEST else f"{offset:,}"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
