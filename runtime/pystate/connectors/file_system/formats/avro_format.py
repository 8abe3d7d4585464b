"""Reads container files of Avro in slots, by fastavro."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, BinaryIO

from pystate.common.errors import JobGraphError, RecordError
from pystate.common.overrides import override
from pystate.common.type_info import TypeInformation, Types
from pystate.connectors.avro.avro_bytes import Check, checks_of
from pystate.connectors.avro.avro_defaults import own_defaults
from pystate.connectors.avro.avro_package import fastavro
from pystate.connectors.avro.avro_schema import AvroSchema
from pystate.connectors.avro.avro_types import row_type_of
from pystate.connectors.bad_records import why
from pystate.connectors.file_system.formats.split_format import FileRecords, SplitFormat

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_HINT = "a file stays as it is until it is read; remove one that is damaged, or none of Avro"


class AvroFormat(SplitFormat):
    """Reads container files. A position is a number of records.

    Args:
        schema: The schema that elements have; files may have been written with others, by Avro's resolution rules. None
            takes each file's own.
        as_rows: Whether elements are rows; else they are as fastavro has them.

    Raises:
        JobGraphError: Rows are wanted of a schema that has none, or fastavro isn't installed.
    """

    def __init__(self, schema: AvroSchema | None, *, as_rows: bool) -> None:
        self._schema = schema
        self._as_rows = as_rows
        self.element_type: TypeInformation = Types.PICKLED_BYTE_ARRAY()
        if as_rows:
            assert schema is not None  # noqa: S101 - those who ask for rows give one
            self.element_type = row_type_of(schema).type_info
        fastavro()

    @override
    def open(self, file: BinaryIO, name: str, position: int) -> FileRecords:
        return _AvroRecords(file, name, position, self._schema, as_rows=self._as_rows)


class _AvroRecords(FileRecords):
    def __init__(self, file: BinaryIO, name: str, position: int, schema: AvroSchema | None, *, as_rows: bool) -> None:
        self._file = file
        self._name = name
        self.position = position
        self._own: Callable[[Any], Any] | None = None
        self._convert = row_type_of(schema).read if as_rows and schema is not None else None
        try:
            if file.read(len(_MAGIC)) != _MAGIC:
                message = "it doesn't begin as a container of Avro does"
                raise ValueError(message)  # noqa: TRY301
            file.seek(0)
            self._blocks = fastavro().block_reader(file)
            if schema is not None and schema != AvroSchema(self._blocks.metadata["avro.schema"]):
                file.seek(0)
                wanted = schema.for_reading
                self._own = own_defaults(wanted)
                self._blocks = fastavro().block_reader(file, wanted)  # resolving a schema takes three times as long
        except JobGraphError:
            raise
        except Exception as error:  # fastavro raises many kinds of errors
            raise self._unreadable(error) from error
        self._check = checks_of(self._blocks.writer_schema)
        self._block: Iterator[Any] = iter(())
        self._ends = position  # where the block ends
        self._drop = self._skip(position)

    def _skip(self, position: int) -> int:
        """Go to the block with a record, by the heads of those before it; return how many of its records come before."""
        while position:
            start = self._file.tell()
            count = _long(self._file)
            if count is None:
                message = f"it has become shorter than the {self.position} records that were read of it"
                raise ValueError(message)
            if count > position:
                self._file.seek(start)
                break
            size = _long(self._file) or 0
            self._file.seek(size + _SYNC_BYTES, 1)
            position -= count
        return position

    @override
    def read(self, most: int) -> list[Any] | None:
        if self.position == self._ends and not self._next_block():
            return None
        elements: list[Any] = []
        some = islice(self._block, most)
        try:
            elements.extend(some if self._convert is None else map(self._convert, some))
        except Exception as error:  # fastavro raises many kinds of errors
            if self.refuse is None:
                raise self._unreadable(error) from error
            self.position += len(elements)
            left = self._ends - self.position
            self.refuse(None, self.position, f"{left} records are lost, the rest of a block: {why(error)}")
            self.position = self._ends
            return elements
        self.position += len(elements)
        return elements

    def _next_block(self) -> bool:
        try:
            block = next(self._blocks, None)
        except Exception as error:  # fastavro raises many kinds of errors
            raise self._unreadable(error) from error
        if block is None:
            return False
        records = iter(block) if self._check is None else _checked(block, self._check)
        self._block = records if self._own is None else map(self._own, records)
        self._ends = self.position - self._drop + block.num_records
        for _ in islice(self._block, self._drop):
            pass
        self._drop = 0
        return True

    def _unreadable(self, error: Exception) -> RecordError:
        return RecordError(f"{self._name} can't be read as Avro after record {self.position}: {why(error)}", hint=_HINT)

    @override
    def close(self) -> None:
        self._file.close()


def _checked(block: Any, check: Check) -> Iterator[Any]:
    """Yield the records of a block, each once its bytes are checked."""
    data, at = block.bytes_.getvalue(), block.bytes_.tell()
    for record in block:
        at = check(data, at)
        yield record


def _long(file: BinaryIO) -> int | None:
    """Read a whole number as Avro writes it: zig-zag, seven bits a byte; None at the end of the file."""
    number = shift = 0
    while True:
        byte = file.read(1)
        if not byte:
            return None
        number |= (byte[0] & 0x7F) << shift
        shift += 7
        if byte[0] < 0x80:  # noqa: PLR2004 - the last one
            return (number >> 1) ^ -(number & 1)
