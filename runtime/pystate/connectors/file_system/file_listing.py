"""Lists the files that a source reads, on both engines: by Flink's rules, and with Hadoop's patterns.

A folder stands for all files in it and in its folders. Files and folders whose names begin with `_` or a dot are skipped
(Flink's `DefaultFileFilter`), and so are those that `hdfs dfs -put` is copying. Paths that the program names itself are read
whatever their name. Links are followed, except to a folder that contains them; special files are skipped.

Patterns are `*`, `?`, `[...]`, `[^...]`, `{a,b}`, and a backslash as escape. A path that exists exactly as written is not a
pattern.
"""

from __future__ import annotations

import datetime
import os
import re
import urllib.parse
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

from fsspec.implementations.local import LocalFileSystem

from pystate.common.errors import ExternalSystemError, JobGraphError, RecordError
from pystate.core.file_systems.file_info import kind_of
from pystate.core.file_systems.places import parse_location

_SPECIAL = re.compile(r"[*?\[\]{}\\]")
_LOCAL = re.compile(r"(file|local):/*", re.IGNORECASE)
_S3 = re.compile(r"s3[anp]?://", re.IGNORECASE)


@dataclass(frozen=True)
class FoundFile:
    """A file to read.

    Attributes:
        uri: Its canonical name.
        modified_ms: When it was written, ms since 1970; 0 where its file system doesn't say.
    """

    uri: str
    modified_ms: int


@dataclass(frozen=True)
class _Child:
    name: str
    is_folder: bool
    is_link: bool
    modified_ms: Callable[[], int]


def found_files(
    paths: tuple[str, ...], known: Collection[str] = frozenset(), columns: Collection[str] = frozenset()
) -> list[FoundFile]:
    """Return the files of paths, without duplicates, oldest first.

    Args:
        paths: Folders, files and patterns.
        known: The names of files to leave out; they aren't accessed.
        columns: The columns of the rows. A folder `column=value` is rejected: its files don't contain the value.

    Raises:
        ExternalSystemError: A path without a pattern doesn't exist, e.g. because its disk isn't mounted.
        JobGraphError: A folder stands for a value of a column.
        RecordError: The name of a file can't be decoded.
        SnapshotError: A path is not valid in any file system.
    """
    listing = _Listing(known, columns)
    for path in paths:
        listing.add(path)
    return sorted(listing.found.values(), key=lambda file: (file.modified_ms, file.uri))


def canonical_uri(uri: str) -> str:
    """Return the canonical name of a file: `file:/path` for local files, `s3://...` for any scheme of S3, others as is."""
    if _LOCAL.match(uri):
        return _LOCAL.sub("file:/", uri, count=1)
    return _S3.sub("s3://", uri, count=1)


def uri_of_spark(encoded: str) -> str:
    """Return the canonical name of a file in Spark's log."""
    return canonical_uri(urllib.parse.unquote(encoded))


def is_pattern(path: str) -> bool:
    """Return whether a path has a pattern in it."""
    return bool(_SPECIAL.search(path))


class _Listing:
    """Collects the files of several paths.

    Args:
        known: The files to leave out.
        columns: See `found_files`.

    Attributes:
        found: The files found, by name.
    """

    def __init__(self, known: Collection[str], columns: Collection[str]) -> None:
        self._known = known
        self._columns = columns
        self.found: dict[str, FoundFile] = {}

    def add(self, text: str) -> None:
        """Add the files of a path or a pattern."""
        fs, path, uri = parse_location(text)
        kind = kind_of(fs, path)
        if kind is not None:
            self._add_at(fs, path, uri, kind)
        elif not is_pattern(text):
            message = f"Path does not exist: {uri}"
            raise ExternalSystemError(message, hint="make the folder, mount its disk, or mend the path")
        else:
            for plain in _without_braces(text):
                fixed, parts = _cut(plain)
                fs, root, uri = parse_location(fixed)
                for path, kind in _matching(fs, root, parts):
                    self._add_at(fs, path, uri.rstrip("/") + path[len(root.rstrip("/")) :], kind)

    def _add_at(self, fs: Any, path: str, uri: str, kind: str) -> None:
        name = canonical_uri(uri)
        if kind == "directory":
            self._add_folder(fs, path, name)
        elif kind == "file":
            self._add_file(name, lambda: _modified(fs.info(path)))

    def _add_file(self, name: str, modified_ms: Callable[[], int]) -> None:
        if name in self._known:
            return
        try:
            name.encode()
        except UnicodeEncodeError as error:
            message = f"A file has a name that is no UTF-8: {os.fsencode(name)!r}."
            raise RecordError(message, hint="rename it, or leave it out by a pattern") from error
        try:
            self.found[name] = FoundFile(name, modified_ms())
        except FileNotFoundError:
            return  # gone since it was seen

    def _add_folder(self, fs: Any, path: str, uri: str) -> None:
        real = os.path.realpath(path) if isinstance(fs, LocalFileSystem) else path
        folders = [(path, uri, real, frozenset({real}))]
        while folders:
            path, uri, real, above = folders.pop()
            for child in _children(fs, path):
                if _passed_over(child.name):
                    continue
                below, child_uri = f"{path.rstrip('/')}/{child.name}", f"{uri.rstrip('/')}/{child.name}"
                if not child.is_folder:
                    self._add_file(child_uri, child.modified_ms)
                    continue
                self._check_folder(child.name, child_uri)
                leads_to = os.path.realpath(below) if child.is_link else f"{real.rstrip('/')}/{child.name}"
                if leads_to not in above:
                    folders.append((below, child_uri, leads_to, above | {leads_to}))

    def _check_folder(self, name: str, uri: str) -> None:
        column, equals, _ = name.partition("=")
        if equals and column in self._columns:
            message = f"{uri} stands for values of the column {column!r}, which are in no file of it."
            hint = "leave the column out, or read with Spark: env.from_data_frame(env.spark.readStream...)"
            raise JobGraphError(message, hint=hint)


def _children(fs: Any, path: str) -> list[_Child]:
    """Return the entries of a folder; nothing if it was deleted since it was listed."""
    try:
        return _on_disk(path) if isinstance(fs, LocalFileSystem) else _elsewhere(fs, path)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _on_disk(path: str) -> list[_Child]:
    def modified_of(entry: os.DirEntry[str]) -> Callable[[], int]:
        return lambda: int(entry.stat().st_mtime * 1000)

    with os.scandir(path) as entries:
        return [
            _Child(entry.name, is_folder, entry.is_symlink(), modified_of(entry))
            for entry in entries
            if (is_folder := entry.is_dir()) or entry.is_file()
        ]


def _elsewhere(fs: Any, path: str) -> list[_Child]:
    def modified_of(info: dict[str, Any]) -> Callable[[], int]:
        return lambda: _modified(info)

    fs.invalidate_cache(path)
    listed = [(str(info["name"]).rstrip("/"), info) for info in fs.ls(path, detail=True)]
    return [
        _Child(name.rsplit("/", 1)[-1], info["type"] == "directory", is_link=False, modified_ms=modified_of(info))
        for name, info in listed
        if name != path.rstrip("/")
    ]


def _modified(info: dict[str, Any]) -> int:
    for key in ("mtime", "modified", "LastModified", "last_modified", "modificationTime", "updated"):
        at = info.get(key)
        if isinstance(at, datetime.datetime):
            return int(at.timestamp() * 1000)
        if isinstance(at, (int, float)):
            return int(at if at > 1e11 else at * 1000)  # Hadoop's are in ms
    return 0


def _passed_over(name: str) -> bool:
    return name.startswith(("_", ".")) or name.endswith("._COPYING_")


# -- patterns


def _without_braces(pattern: str) -> Iterator[str]:
    """Yield the expansions of a pattern with alternatives."""
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
    """Split a path before the first part with a pattern: return the folder, and the remaining parts."""
    parts = pattern.split("/")
    first = next((index for index, part in enumerate(parts) if is_pattern(part)), len(parts) - 1)
    return "/".join(parts[:first]) or "/", [part for part in parts[first:] if part]


def _matching(fs: Any, root: str, parts: list[str]) -> Iterator[tuple[str, str]]:
    """Yield path and kind of each match; hidden names match only a pattern that begins with the same character."""
    places = [(root, "directory")]
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        expression = re.compile(_expression(part))
        places = [
            (f"{path.rstrip('/')}/{child.name}", "directory" if child.is_folder else "file")
            for path, _ in places
            for child in _children(fs, path)
            if expression.fullmatch(child.name)
            and (child.is_folder or last)
            and (not _passed_over(child.name) or child.name[0] == part[0])
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
