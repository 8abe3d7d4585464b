"""RocksDB files written outside of a database for ingestion, bypassing its write buffers."""

from __future__ import annotations

import os
from collections import deque
from itertools import starmap

from rocksdict import Options, SstFileWriter

_FILE_BYTES = 64 << 20


class SortedFiles:
    """Writes ordered rows to files of about 64 MB.

    Errors are rocksdict's, which has no class of its own.

    Args:
        directory: Where; no file of an earlier object is there.
        options: Those of the database that will take them in.
    """

    def __init__(self, directory: str, options: Options) -> None:
        self._directory = directory
        self._options = options
        self._paths: list[str] = []
        self._writer: SstFileWriter | None = None

    def add(self, batch: list[tuple[bytes, bytes]]) -> None:
        """Write rows after the previous ones."""
        if self._writer is None:
            self._paths.append(os.path.join(self._directory, f"taken-{len(self._paths)}.sst"))
            self._writer = SstFileWriter(self._options)
            self._writer.open(self._paths[-1])
        deque(starmap(self._writer.__setitem__, batch), maxlen=0)
        if self._writer.file_size() > _FILE_BYTES:
            self._end_file()

    def finish(self) -> list[str]:
        """Close the last file, and return the paths of all; none if there were no rows."""
        self._end_file()
        return self._paths

    def _end_file(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.finish()
