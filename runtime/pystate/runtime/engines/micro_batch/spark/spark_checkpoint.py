"""Spark's own checkpoint directory: its offset, commit and source logs.

It is only a working copy: the files that describe the source positions at an epoch are copied into each checkpoint, and a
directory rebuilt from that copy makes a new query continue there. The layout is that of Spark's `checkpointLocation`
(metadata, offsets/, commits/, sources/), as observed in Spark 4.3.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgpack

from pystate.common.errors import CorruptSnapshotError, RestoreError, SnapshotError
from pystate.common.files.foreign_json import parse_json

_LOG_ENTRY = re.compile(r"(\d+)(\.compact)?")
_ARCHIVE_PATH = re.compile(r"metadata|pystate-sources|(offsets|commits)/\d+|sources/\d+/[\w.-]+(/[\w.-]+)*")
NO_OFFSET = "-"
"""The entry in the offset log of a source that has no offset yet."""

_SOURCES = "pystate-sources"
"""A pystate file in the archive: the source of each line in the offset log."""


@dataclass(frozen=True)
class SparkSource:
    """The source of one line in Spark's offset log.

    Attributes:
        uid: The uid of the job's source.
        part: Which of the source's Spark streams it is, as there may be several.
        log: The number of the stream's directory in `sources/`.
        keeps_place: Whether the stream continues at its offset; otherwise it starts over with each query.
    """

    uid: str
    part: int
    log: int
    keeps_place: bool = field(default=True, compare=False)


class SparkCheckpointDirectory:
    """One query's checkpoint directory on the driver's local disk.

    Args:
        path: The directory; created when the query starts.
        sources: The query's sources, in the order of the offset log.

    Attributes:
        path: The directory.
        sources: The query's sources, in the order of the offset log.
    """

    def __init__(self, path: Path, sources: Sequence[SparkSource]) -> None:
        self.path = path
        self.sources = tuple(sources)

    def is_committed(self, batch: int) -> bool:
        """Whether Spark has committed the batch."""
        return batch < 0 or (self.path / "commits" / str(batch)).exists()

    def capture(self, batch: int) -> dict[str, bytes]:
        """Return the files that describe the source positions at `batch`, without its commit.

        Call it before the next batch is over, while Spark can't have purged them. Empty before the first batch (-1).

        Raises:
            SnapshotError: A file is missing.
        """
        if batch < 0:
            return {}
        files = {"metadata": self._read("metadata")}
        for number in (batch - 1, batch):
            for log in ("offsets", "commits"):
                if number >= 0 and (self.path / log / str(number)).exists():
                    files[f"{log}/{number}"] = self._read(f"{log}/{number}")
        if f"offsets/{batch}" not in files:
            message = f"Spark's offset log has no entry for batch {batch}."
            raise SnapshotError(message, where=str(self.path))
        offsets = source_offsets(files[f"offsets/{batch}"])
        if len(offsets) != len(self.sources):
            message = f"Spark's offset log has {len(offsets)} sources, the job {len(self.sources)}."
            raise SnapshotError(message, where=str(self.path))
        for source, offset in zip(self.sources, offsets, strict=True):
            files.update(self._source_files(source.log, offset))
        files[_SOURCES] = _described(self.sources)
        return files

    def capture_running(self, batch: int) -> dict[str, bytes]:
        """Return the files with which a query reruns `batch` with the same rows.

        They are used together with those of the previous batch. Call it while the batch runs.

        Raises:
            SnapshotError: A file is missing.
        """
        files = {name: self._read(name) for name in ("metadata", f"offsets/{batch}")}
        for source, offset in zip(self.sources, source_offsets(files[f"offsets/{batch}"]), strict=True):
            files.update(self._source_files(source.log, offset))
        files[_SOURCES] = _described(self.sources)
        return files

    def capture_commit(self, batch: int) -> dict[str, bytes]:
        """Return the commit of `batch`, which Spark writes after the batch's sinks are done."""
        return {f"commits/{batch}": self._read(f"commits/{batch}")} if batch >= 0 else {}

    def rebuild(self, files: dict[str, bytes], *, keep_query_id: bool) -> None:
        """Create a directory from which a query continues after the batch at which `files` were captured.

        Args:
            files: What `capture` and `capture_commit` returned.
            keep_query_id: Whether sinks that distinguish queries see the same query.
        """
        self.path.mkdir(parents=True)
        for name, data in files.items():
            if name == _SOURCES:
                continue
            path = self.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            new_id = name == "metadata" and not keep_query_id
            path.write_bytes(json.dumps({"id": str(uuid.uuid4())}).encode() if new_id else data)

    def offsets(self, batch: int) -> list[str]:
        """Return the offset of each source at the end of a batch that has begun; see `source_offsets`.

        Raises:
            SnapshotError: The log has no entry for it.
        """
        return source_offsets(self._read(f"offsets/{batch}"))

    def _source_files(self, index: int, offset: str) -> dict[str, bytes]:
        """Return one source's own log, for file sources up to the file batch that `offset` names.

        Later entries would merge the backlog into one epoch. The last `.compact` file contains all earlier entries.
        """
        directory = self.path / "sources" / str(index)
        if not directory.is_dir():
            return {}
        last = _log_offset(offset)
        entries: dict[int, list[str]] = {}
        others: list[str] = []
        for path in directory.rglob("*"):
            if not path.is_file() or path.name.startswith("."):
                continue
            match = _LOG_ENTRY.fullmatch(path.name)
            if match and path.parent == directory and last is not None:
                entries.setdefault(int(match[1]), []).append(path.name)
            else:
                others.append(str(path.relative_to(directory)))
        names = others + (_needed_entries(entries, last) if last is not None else [])
        return {f"sources/{index}/{name}": (directory / name).read_bytes() for name in names}

    def _read(self, name: str) -> bytes:
        try:
            return (self.path / name).read_bytes()
        except OSError as error:
            message = f"Spark's checkpoint directory has no readable {name}: {error}"
            raise SnapshotError(message, where=str(self.path)) from error


def _needed_entries(entries: dict[int, list[str]], last: int) -> list[str]:
    compacts = [number for number, names in entries.items() if number <= last and f"{number}.compact" in names]
    newest = max(compacts, default=None)
    names = [] if newest is None else [f"{newest}.compact"]
    first = 0 if newest is None else newest + 1
    return names + [str(number) for number in range(first, last + 1) if str(number) in entries.get(number, ())]


def source_offsets(offset_log: bytes) -> list[str]:
    """Return the offset of each source, as the JSON text Spark stores; `-` for a source without one."""
    return offset_log.decode().split("\n")[2:]


def _log_offset(offset: str) -> int | None:
    """Return the file batch that a file source's offset names; None for other sources."""
    if offset == NO_OFFSET:
        return None
    parsed: Any = parse_json(offset)
    return int(parsed["logOffset"]) if isinstance(parsed, dict) and "logOffset" in parsed else None


def captured_sources(files: dict[str, bytes]) -> list[SparkSource]:
    """Return the sources of captured files, in the order of the offset log; none before the first batch.

    Raises:
        CorruptSnapshotError: The files don't name them.
    """
    if not files:
        return []
    try:
        return [SparkSource(str(uid), int(part), int(log)) for uid, part, log in parse_json(files[_SOURCES])]
    except (KeyError, ValueError, TypeError) as error:
        message = "The archive of Spark's logs doesn't say which sources they are about."
        raise CorruptSnapshotError(message) from error


def source_log(files: Mapping[str, bytes], number: int) -> dict[str, bytes]:
    """Return the files of a source's own log, by their names in it.

    Args:
        files: Captured files.
        number: The number of the log, see `SparkSource.log`.
    """
    folder = f"sources/{number}/"
    return {name[len(folder) :]: data for name, data in files.items() if name.startswith(folder)}


def fit_sources(
    files: dict[str, bytes],
    sources: Sequence[SparkSource],
    *,
    allow_non_restored: bool,
    taken_over: Collection[str] = frozenset(),
) -> dict[str, bytes]:
    """Convert captured files to what they would be if the query had these sources in this order.

    A source in the files continues at its offset; a new source, and one that doesn't keep its place, starts over.

    Args:
        files: The captured files.
        sources: The current sources of the job.
        allow_non_restored: Whether state of sources that are no longer in the job may be dropped.
        taken_over: The uids of sources that continue outside of Spark.

    Raises:
        RestoreError: The job lacks a source.
    """
    old = captured_sources(files)
    if not files or (list(sources) == old and all(source.keeps_place for source in sources)):
        return files
    known = {(source.uid, source.part): index for index, source in enumerate(old)}
    present = {(source.uid, source.part) for source in sources}
    wanted = [known.get((source.uid, source.part)) if source.keeps_place else None for source in sources]
    lost = sorted({source.uid for source in old if (source.uid, source.part) not in present} - set(taken_over))
    if lost and not allow_non_restored:
        message = f"The job has no source {', '.join(map(repr, lost))}, of which the snapshot says how far it was read."
        hint = "give the source its old uid, or leave it behind with --allowNonRestoredState"
        raise RestoreError(message, hint=hint)
    fitted = {}
    for name, data in files.items():
        if name.startswith("offsets/"):
            version, metadata, *offsets = data.decode().split("\n")
            lines = [NO_OFFSET if index is None else offsets[index] for index in wanted]
            fitted[name] = "\n".join([version, metadata, *lines]).encode()
        elif not name.startswith("sources/"):
            fitted[name] = data
    for source, index in zip(sources, wanted, strict=True):
        prefix = None if index is None else f"sources/{old[index].log}/"
        for name in files:
            if prefix is not None and name.startswith(prefix):
                fitted[f"sources/{source.log}/{name[len(prefix) :]}"] = files[name]
    fitted[_SOURCES] = _described(sources)
    return fitted


def _described(sources: Sequence[SparkSource]) -> bytes:
    return json.dumps([[source.uid, source.part, source.log] for source in sources]).encode()


def pack_archive(files: dict[str, bytes]) -> bytes:
    """Pack the files into one byte string."""
    packed: bytes = msgpack.packb(dict(sorted(files.items())), use_bin_type=True)
    return packed


def unpack_archive(data: bytes) -> dict[str, bytes]:
    """Return the files that `pack_archive` packed.

    Raises:
        CorruptSnapshotError: It isn't such an archive, or a path in it leads outside.
    """
    try:
        files = msgpack.unpackb(data, raw=False, max_array_len=0, max_ext_len=0)
        sound = isinstance(files, dict) and all(
            isinstance(name, str) and isinstance(content, bytes) and _ARCHIVE_PATH.fullmatch(name) and ".." not in name
            for name, content in files.items()
        )
    except (ValueError, TypeError, msgpack.exceptions.UnpackException) as error:
        message = f"The archive of Spark's logs can't be read: {error}"
        raise CorruptSnapshotError(message) from error
    if not sound:
        message = "The archive of Spark's logs holds something else than Spark's logs."
        raise CorruptSnapshotError(message)
    checked: dict[str, bytes] = files
    return checked
