"""The base of the files of a job's folder: a class per file defines its content and writes it atomically."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from pystate.common.errors import PystateError
from pystate.common.files.home import read_json, write_json
from pystate.common.files.job_files import JobFile, Reserve
from pystate.common.text.plain_data import PlainData, PlainDataError

F = TypeVar("F", bound="FileContent")
_VERSION, _CHECKSUM = "version", "crc32"


class DamagedFileError(PystateError):
    """A file of a job is damaged."""


@dataclass(frozen=True)
class FileContent(PlainData):
    """The base class of the content of one file: a JSON object whose entries are the fields.

    Attributes:
        title: Its name for users.
        version: The version that is written, and the only one that is read; None for files without one.
        first_without_version: Whether files of version 1 may lack the version, as the first ones did.
        has_checksum: Whether a CRC-32 of the entries is written, and checked.
    """

    title: ClassVar[str]
    version: ClassVar[int | None] = None
    first_without_version: ClassVar[bool] = False
    has_checksum: ClassVar[bool] = False

    @classmethod
    def read_from(cls: type[F], file: JobFile) -> F | None:
        """Read a file; None if there is none.

        Raises:
            DamagedFileError: It is damaged.
            PystateError: It is of a version that isn't known here.
            OSError: It can't be read.
        """
        try:
            plain = read_json(file)
            return None if plain is None else cls.from_file(plain, str(file))
        except (ValueError, RecursionError) as error:
            message = f"{cls.title} is damaged: {error}."
            raise DamagedFileError(message, where=str(file)) from error

    @classmethod
    def from_file(cls: type[F], plain: Any, where: str) -> F:
        """Rebuild it from the content of a file.

        Raises:
            PlainDataError: It is something else, or its checksum is another one.
            PystateError: It is of a version that isn't known here.
        """
        if cls.version is None or not isinstance(plain, Mapping):
            return cls.from_plain(plain)
        version = plain.get(_VERSION, 1 if cls.first_without_version else None)
        if version is None:
            message = "it has no version"
            raise PlainDataError(message)
        if version != cls.version:
            message = f"{cls.title} has version {version}; this version of pystate knows {cls.version}."
            raise PystateError(message, where=where)
        ours = (_VERSION, _CHECKSUM) if cls.has_checksum else (_VERSION,)
        content = {key: value for key, value in plain.items() if key not in ours}
        found = cls.from_plain(content)
        if cls.has_checksum and plain.get(_CHECKSUM) != _checksum(content):
            message = "its checksum is another one"
            raise PlainDataError(message)
        return found

    def to_file(self) -> dict[str, Any]:
        """Return the content of the file."""
        versioned = {} if self.version is None else {_VERSION: self.version}
        content = self.to_plain()
        checked = {_CHECKSUM: _checksum(content)} if self.has_checksum else {}
        return {**versioned, **checked, **content}

    def write_to(self, file: JobFile, reserve: Reserve | None = None) -> None:
        """Write it atomically, readable for the owner of the home only.

        Args:
            file: The file.
            reserve: Room for it on a full disk.

        Raises:
            OSError: It can't be written; what stood there before still does.
        """
        write_json(file, self.to_file(), reserve=reserve)


def _checksum(content: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())
