"""The table of `docs/connectors-files.md`: what a source of files reads, rule by rule, for both engines."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

MONTH = 30 * 86_400


@dataclass(frozen=True)
class Rule:
    """A row of the table.

    Attributes:
        said: Its first column.
        files: By path below the rule's folder, what is in each.
        lines: That are read; each begins with the rule's own mark in a test.
        also: Does what files alone don't say, in the folder.
    """

    said: str
    files: dict[str, bytes]
    lines: list[str]
    also: Callable[[Path], object] = field(default=lambda folder: None)

    def write(self, folder: Path) -> None:
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        folder.mkdir(parents=True, exist_ok=True)
        self.also(folder)


def _zstandard(data: bytes) -> bytes:
    return pa.compress(data, codec="zstd", asbytes=True)


def _links(folder: Path) -> None:
    (folder / "to-file").symlink_to("real/a.txt")
    (folder / "to-folder").symlink_to("real")
    (folder / "real" / "to-above").symlink_to("..")
    (folder / "dangling").symlink_to("nowhere")


def _old(folder: Path) -> None:
    at = time.time() - MONTH
    os.utime(folder / "a.txt", (at, at))


TEXT = b"a\nb\n"
RULES = [
    Rule("folders in folders", {"a.txt": b"a\n", "x/b.txt": b"b\n", "x/y/c.txt": b"c\n", "day=1/d.txt": b"d\n"}, [*"abcd"]),
    Rule(
        "names that begin with `.` or `_`",
        {"a.txt": b"a\n", ".b": b"b\n", "_c": b"c\n", "_x/d": b"d\n", ".x/e": b"e\n"},
        ["a"],
    ),
    Rule("names that end in `._COPYING_`", {"a.txt": b"a\n", "b.txt._COPYING_": b"b\n"}, ["a"]),
    Rule(
        "colon, space, brackets, braces, comma, per cent, `#`, `?`, `*`, umlauts in names",
        {
            name: f"{number}\n".encode()
            for number, name in enumerate(
                ["2026-11-28T10:00:00.txt", "a b", "[c]", "{d,e}", "f%20g", "h#i", "j?k", "l*m", "ä€😀", "x:y/z"]
            )
        },
        [str(number) for number in range(10)],
    ),
    Rule("links", {"real/a.txt": b"a\n"}, ["a", "a", "a"], _links),
    Rule("pipes, sockets, devices", {"a.txt": b"a\n"}, ["a"], lambda folder: os.mkfifo(folder / "pipe")),
    Rule("written long ago", {"a.txt": b"a\n", "b.txt": b"b\n"}, ["a", "b"], _old),
    Rule(
        "`.gz`, `.gzip`, `.bz2`, `.xz`, `.deflate`, `.zst`",
        {
            "1.gz": gzip.compress(TEXT),
            "2.txt.GZIP": gzip.compress(b"a\n") + gzip.compress(b"b\n"),
            "3.bz2": bz2.compress(TEXT),
            "4.xz": lzma.compress(TEXT),
            "5.deflate": zlib.compress(TEXT),
            "6.zst": _zstandard(TEXT),
        },
        ["a", "b"] * 6,
    ),
    Rule("empty files", {"a": b"", "b.gz": b"", "c": b"\xef\xbb\xbf", "d.zst": b"", "e.xz": lzma.compress(b"")}, []),
    Rule("line ends", {"a": b"a\r\nb\rc\nd", "b": b"e\r", "c": b"f\r\n"}, [*"abcdef"]),
    Rule("empty lines", {"a": b"\n\na\n\r\n", "b": b"\r\r"}, ["", "", "a", "", "", ""]),
    Rule("a byte order mark of UTF-8", {"a": b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n"}, ["a", "\ufeffb"]),
    Rule("other separators of Unicode", {"a": "a\u2028b\x85c\x0bd\x00".encode()}, ["a\u2028b\x85c\x0bd\x00"]),
]
