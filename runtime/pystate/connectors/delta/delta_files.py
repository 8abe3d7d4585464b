"""The folder of a Delta table, by Arrow: deltalake's own file system holds up all threads of a slot that waits for S3."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow.fs as pf

from pystate.common.errors import JobGraphError

_S3 = ("s3", "s3a")


class TableFolder:
    """Files below a table.

    Args:
        uri: The table.
        storage_options: How its storage is reached, with deltalake's keys.

    Raises:
        JobGraphError: It is on another storage than a file system that this machine has, or S3.
    """

    def __init__(self, uri: str, storage_options: Mapping[str, str]) -> None:
        scheme, separator, rest = uri.partition("://")
        self._makes_folders = not separator or scheme == "file"
        if self._makes_folders:
            self._base, self._files = (rest or uri), pf.LocalFileSystem()
        elif scheme in _S3:
            self._base, self._files = rest, _s3(storage_options)
        else:
            message = f"A Delta table on {scheme}:// can't be reached."
            raise JobGraphError(message, where=uri, hint="use a path that every slot sees, or s3://")

    def write(self, path: str, content: Any) -> None:
        """Write a file whole: bytes, or a buffer of Arrow.

        Raises:
            FileNotFoundError: The table isn't there any more. A folder recreated would let checkpoints complete on nothing.
        """
        full = f"{self._base}/{path}"
        if self._makes_folders:
            if not os.path.isdir(self._base):
                raise FileNotFoundError(errno.ENOENT, "The folder of the table is gone", self._base)
            os.makedirs(os.path.dirname(full), exist_ok=True)
        with self._files.open_output_stream(full) as stream:
            stream.write(content)

    def read(self, path: str) -> bytes | None:
        """Return the content of a file; None if there is none."""
        try:
            with self._files.open_input_stream(f"{self._base}/{path}") as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None

    def open(self, path: str) -> Any:
        """Return a file of Arrow to read from.

        Raises:
            FileNotFoundError: There is none.
        """
        return self._files.open_input_file(f"{self._base}/{path}")

    def missing(self, paths: Sequence[str]) -> str | None:
        """Return the first path that is not there; None if all are."""
        found = self._files.get_file_info([f"{self._base}/{path}" for path in paths])
        return next((path for path, info in zip(paths, found, strict=True) if info.type is pf.FileType.NotFound), None)

    def delete(self, paths: Sequence[str]) -> None:
        """Delete files, as far as they are there."""
        for path in paths:
            try:
                self._files.delete_file(f"{self._base}/{path}")
            except FileNotFoundError:
                continue

    def older_than(self, before_ms: int) -> list[str]:
        """Return the paths of all files that were last written before a time, ms since 1970."""
        found = self._files.get_file_info(pf.FileSelector(self._base, recursive=True, allow_not_found=True))
        files = [one for one in found if one.type is pf.FileType.File and one.mtime_ns // 1_000_000 < before_ms]
        return [one.path[len(self._base) :].lstrip("/") for one in files]


def _s3(storage_options: Mapping[str, str]) -> pf.FileSystem:
    """Return S3 as deltalake's keys say; what they don't say, the environment does, as with deltalake."""
    given = {key.lower().removeprefix("aws_"): value for key, value in storage_options.items()}

    def value(*keys: str) -> str | None:
        there = (given.get(key) or os.environ.get(f"AWS_{key.upper()}") for key in keys)
        return next((one for one in there if one), None)

    endpoint = value("endpoint_url", "endpoint")
    named = {
        "access_key": value("access_key_id"),
        "secret_key": value("secret_access_key"),
        "session_token": value("session_token", "token"),
        "region": value("region", "default_region"),
        "endpoint_override": endpoint,
    }
    hosted = (value("virtual_hosted_style_request") or "false").lower() == "true"
    arguments = {key: one for key, one in named.items() if one is not None}
    if endpoint is not None:
        scheme, _, host = endpoint.rpartition("://")
        arguments |= {"endpoint_override": host, "scheme": scheme or "https"}
    return pf.S3FileSystem(**arguments, force_virtual_addressing=hosted and endpoint is not None)
