"""What the micro-batch engine has to know about Spark's source of files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pystate.common.overrides import override
from pystate.connectors.file_system.file_splits import describe_position
from pystate.connectors.spark_format import Loss, ReadLimit, ReadUnit, SparkFormat

_CLEANS = "cleanSource"
_LOG_ENTRY = re.compile(r"(\d+)(\.compact)?")


class FilesFormat(SparkFormat):
    """Files of any format; an offset is the number of an entry in the source's own log, which names files."""

    implementation = "FileSource["
    limit = ReadLimit("maxBytesPerTrigger", ReadUnit.BYTES, others=("maxFilesPerTrigger",))

    @override
    def loss(self, options: Mapping[str, str]) -> Loss | None:
        clean = options.get(_CLEANS.lower(), "off").lower()
        if clean == "off":
            return None
        alternative = "leave cleanSource out, and remove files once no savepoint needs them"
        # files that have not been removed yet come again
        return Loss(_CLEANS, f"removes files it has read ({_CLEANS} = {clean})", alternative, gives_some_again=True)

    @override
    def describe_offset(self, offset: Any, log: Mapping[str, bytes]) -> str | None:
        at = offset.get("logOffset") if isinstance(offset, dict) else None
        return _words(at, log) if type(at) is int else describe_position(offset)  # of a source in slots


def _words(log_offset: int, log: Mapping[str, bytes]) -> str:
    """Count the files in a file source's log: a compact entry contains all earlier ones."""
    entries: dict[int, tuple[bool, bytes]] = {}
    for name, content in log.items():
        match = _LOG_ENTRY.fullmatch(name)
        if match and int(match[1]) <= log_offset:
            entries[int(match[1])] = (match[2] is not None, content)
    first = max((number for number, (compact, _) in entries.items() if compact), default=0)
    if not entries or set(range(first, log_offset + 1)) - entries.keys():
        return f"file batches up to log offset {log_offset} read"
    count = sum(
        content.count(b"\n") for number, (_, content) in entries.items() if number >= first
    )  # the first line of an entry is its version, and no entry ends with a newline
    return f"{count:,} file{'' if count == 1 else 's'} read (log offset {log_offset})"
