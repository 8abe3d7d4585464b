"""Which files a source reads: what Spark's file source would list, with the file systems of slots.

Folders, files, and patterns as Hadoop has them (`*`, `?`, `[...]`, `[^...]`, `{a,b}`, and a backslash in front of what is no
pattern). Of a folder the files directly in it are read. Names that begin with `_` or a dot, and those that are being copied,
aren't.
"""

from __future__ import annotations

import datetime
import re
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pystate.common.errors import ExternalSystemError, JobGraphError
from pystate.file_systems.file_info import kind_of
from pystate.file_systems.places import parse_location

_SPECIAL = re.compile(r"[*?\[\]{}\\]")
_LOCAL = re.compile(r"(file|local):/*", re.IGNORECASE)
_S3 = re.compile(r"s3[anp]?://", re.IGNORECASE)


@dataclass(frozen=True)
class FoundFile:
    """A file that is to be read.

    Attributes:
        uri: Its one name.
        modified_ms: When it was written, ms since 1970; 0 where its file system doesn't say.
    """

    uri: str
    modified_ms: int


def found_files(paths: tuple[str, ...]) -> list[FoundFile]:
    """Return the files of paths, each once, in the order they were written.

    Raises:
        ExternalSystemError: A path that is no pattern leads nowhere, as where its disk isn't mounted.
        JobGraphError: A folder has folders of partitions in it.
        SnapshotError: It names no place of a file system.
    """
    found = {file.uri: file for path in paths for file in _found(path)}
    return sorted(found.values(), key=lambda file: (file.modified_ms, file.uri))


def canonical_uri(uri: str) -> str:
    """Return the one name of a file: `file:/path` on this machine, `s3://...` however S3 is called, others as they are."""
    if _LOCAL.match(uri):
        return _LOCAL.sub("file:/", uri, count=1)
    return _S3.sub("s3://", uri, count=1)


def uri_of_spark(encoded: str) -> str:
    """Return the name of a file that Spark's log names."""
    return canonical_uri(urllib.parse.unquote(encoded))


def is_pattern(path: str) -> bool:
    """Whether it stands for any number of files."""
    return bool(_SPECIAL.search(path))


def _found(text: str) -> Iterator[FoundFile]:
    if not is_pattern(text):
        fs, path, uri = parse_location(text)
        kind = kind_of(fs, path)
        if kind is None:
            message = f"Path does not exist: {uri}"
            raise ExternalSystemError(message, hint="make the folder, mount its disk, or mend the path")
        yield from _files_at(fs, path, uri, kind)
        return
    for plain in _without_braces(text):
        fixed, parts = _cut(plain)
        fs, root, uri = parse_location(fixed)
        for path, kind in _matching(fs, root, parts):
            yield from _files_at(fs, path, uri + path[len(root) :] if root != "/" else uri.rstrip("/") + path, kind)


def _files_at(fs: Any, path: str, uri: str, kind: str) -> Iterator[FoundFile]:
    if kind == "file":
        if not _hidden(path.rsplit("/", 1)[-1]):
            yield FoundFile(canonical_uri(uri), _modified(fs.info(path)))
        return
    for name, info in _children(fs, path):
        if info["type"] == "directory":
            if "=" in name and not _hidden(name):
                message = f"{uri}/{name} looks like a folder of a partition, which only Spark's own reader makes columns of."
                raise JobGraphError(message, hint="name the folders themselves, or set execution.engine = micro-batch")
        elif not _hidden(name):
            yield FoundFile(canonical_uri(f"{uri.rstrip('/')}/{name}"), _modified(info))


def _children(fs: Any, path: str) -> list[tuple[str, dict[str, Any]]]:
    fs.invalidate_cache(path)
    try:
        listed = fs.ls(path, detail=True)
    except (FileNotFoundError, NotADirectoryError):
        return []  # gone since it was seen
    named = [(str(info["name"]).rstrip("/").rsplit("/", 1)[-1], info) for info in listed]
    return [(name, info) for name, info in named if str(info["name"]).rstrip("/") != path.rstrip("/")]


def _modified(info: dict[str, Any]) -> int:
    for key in ("mtime", "modified", "LastModified", "last_modified", "modificationTime", "updated"):
        at = info.get(key)
        if isinstance(at, datetime.datetime):
            return int(at.timestamp() * 1000)
        if isinstance(at, (int, float)):
            return int(at if at > 1e11 else at * 1000)  # Hadoop's are in ms
    return 0


def _hidden(name: str) -> bool:
    """Spark's `HadoopFSUtils.shouldFilterOutPathName`, and what its readers leave out of what that leaves in."""
    return (name.startswith("_") and "=" not in name) or name.startswith(".") or name.endswith("._COPYING_")


# -- patterns


def _without_braces(pattern: str) -> Iterator[str]:
    """Yield the patterns that one with alternatives stands for."""
    start = _unescaped(pattern, "{", 0)
    if start is None:
        yield pattern
        return
    depth, at, cuts = 0, start, [start]
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at += 1
        elif char == "{":
            depth += 1
        elif char == "," and depth == 1:
            cuts.append(at)
        elif char == "}":
            depth -= 1
            if depth == 0:
                break
        at += 1
    if depth:
        message = f"The pattern {pattern!r} has a brace that isn't closed."
        raise JobGraphError(message)
    cuts.append(at)
    for first, last in zip(cuts[:-1], cuts[1:], strict=True):
        yield from _without_braces(pattern[:start] + pattern[first + 1 : last] + pattern[at + 1 :])


def _unescaped(text: str, char: str, start: int) -> int | None:
    at = start
    while at < len(text):
        if text[at] == "\\":
            at += 1
        elif text[at] == char:
            return at
        at += 1
    return None


def _cut(pattern: str) -> tuple[str, list[str]]:
    """Return the folder in front of the first part with a pattern in it, and the parts from there on."""
    parts = pattern.split("/")
    first = next((index for index, part in enumerate(parts) if is_pattern(part)), len(parts) - 1)
    return "/".join(parts[:first]) or "/", [part for part in parts[first:] if part]


def _matching(fs: Any, root: str, parts: list[str]) -> Iterator[tuple[str, str]]:
    places = [(root, "directory")]
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        expression = re.compile(_expression(part))
        places = [
            (f"{path.rstrip('/')}/{name}", str(info["type"]))
            for path, _ in places
            for name, info in _children(fs, path)
            if expression.fullmatch(name) and (last or info["type"] == "directory")
        ]
    yield from places


def _expression(glob: str) -> str:
    out, at = [], 0
    while at < len(glob):
        char = glob[at]
        if char == "\\" and at + 1 < len(glob):
            at += 1
            out.append(re.escape(glob[at]))
        elif char == "*":
            out.append(".*")
        elif char == "?":
            out.append(".")
        elif char == "[":
            end = _unescaped(glob, "]", at + 2)
            if end is None:
                message = f"The pattern {glob!r} has a bracket that isn't closed."
                raise JobGraphError(message)
            inside = glob[at + 1 : end]
            negated = inside[:1] in ("^", "!")
            out.append(f"[{'^' if negated else ''}{inside[negated:].replace('[', chr(92) + '[')}]")
            at = end
        else:
            out.append(re.escape(char))
        at += 1
    return "(?s:" + "".join(out) + ")"
