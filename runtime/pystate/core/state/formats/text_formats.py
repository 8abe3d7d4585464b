"""The formats of texts, bytes and pickled values."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

from pystate.common.errors import UnknownClassError, UserFunctionError
from pystate.common.overrides import override
from pystate.common.type_info import TypeKind
from pystate.common.type_rules import WrongValueError, as_bytes
from pystate.common.user_code.program_classes import why_not_kept
from pystate.core.state.formats.key_bytes import TAG_BINARY, TAG_CHAR, TAG_STRING, damaged_text, text_bytes, wrong_key
from pystate.core.state.formats.scalar_format import Scalar
from pystate.core.state.formats.type_format import Format, Right

if TYPE_CHECKING:
    import pyarrow as pa

    from pystate.core.state.formats.key_cells import KeyCells, KeyColumn
    from pystate.core.state.formats.packed_columns import PackedCells, ValueColumn

_NONE = type(None)


class Text(Scalar):
    """Texts."""

    kind = TypeKind.STRING
    right: Right | None = Right(str)
    exact_type: type | None = str
    direct_type: type | None = str
    tag = TAG_STRING
    arrow_alias = "string"
    distinct = sized = True
    carried = frozenset({str, _NONE})

    @override
    def check(self, value: Any) -> Any:
        return self.to_plain(value)

    @override
    def to_plain(self, value: Any) -> Any:
        return value if type(value) is str else self.conformed(value)

    @override
    def from_plain(self, plain: Any) -> Any:
        return self.to_plain(plain)

    @override
    def encode_key(self, value: Any) -> bytes:
        text: str = value if type(value) is str else self.right_key(value)
        return text.encode("utf-8", "surrogatepass")

    @override
    def decode_key(self, data: bytes) -> str:
        try:
            return data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise damaged_text() from error

    @override
    def read_values(self, cells: PackedCells) -> pa.Array:
        return cells.texts()

    @override
    def write_values(self, column: ValueColumn) -> pa.Array:
        return column.texts()

    @override
    def read_keys(self, cells: KeyCells) -> pa.Array:
        return cells.texts()

    @override
    def write_keys(self, column: KeyColumn) -> pa.Array:
        return column.texts()


class Char(Text):
    """Texts of one character."""

    kind = TypeKind.CHAR
    right = exact_type = direct_type = None
    tag = TAG_CHAR
    carried = frozenset({_NONE})  # a text may be of another length

    @override
    def to_plain(self, value: Any) -> Any:
        return value if type(value) is str and len(value) == 1 else self.conformed(value)

    @override
    def encode_key(self, value: Any) -> bytes:
        return text_bytes(value if type(value) is str and len(value) == 1 else self.right_key(value))

    @override
    def read_values(self, cells: PackedCells) -> pa.Array:
        return cells.characters(cells.texts())

    @override
    def write_values(self, column: ValueColumn) -> pa.Array:
        return column.characters()

    @override
    def read_keys(self, cells: KeyCells) -> pa.Array:
        return cells.characters(cells.texts())

    @override
    def write_keys(self, column: KeyColumn) -> pa.Array:
        return Format.write_keys(self, column)


class Binary(Format):
    """Bytes.

    Args:
        name: The name of the type.
    """

    right = Right(bytes)
    tag = TAG_BINARY
    sized = True
    carried = frozenset({bytes, _NONE})

    def __init__(self, name: str) -> None:
        self.name = name

    @override
    def check(self, value: Any) -> Any:
        return self.to_plain(value)

    @override
    def to_plain(self, value: Any) -> Any:
        if type(value) is bytes:
            return value
        try:
            return as_bytes(value, self.name)
        except WrongValueError as error:
            raise self.wrong(value, error.why) from None

    @override
    def from_plain(self, plain: Any) -> Any:
        return self.to_plain(plain)

    @override
    def encode_key(self, value: Any) -> bytes:
        if type(value) is not bytes:
            try:
                return as_bytes(value, "BINARY")
            except WrongValueError:
                raise wrong_key(value, "BINARY") from None
        return value

    @override
    def decode_key(self, data: bytes) -> bytes:
        return data

    @override
    def read_values(self, cells: PackedCells) -> pa.Array:
        return cells.binaries()

    @override
    def write_values(self, column: ValueColumn) -> pa.Array:
        return column.binaries()

    @override
    def read_keys(self, cells: KeyCells) -> pa.Array:
        return cells.binaries()

    @override
    def write_keys(self, column: KeyColumn) -> pa.Array:
        return column.binaries()


_STOPS = "its class raises StopIteration where it is pickled or read: next() needs a default there"


class Pickled(Scalar):
    """Values that are pickled, since the job asks for that by their type."""

    kind = TypeKind.PICKLED_BYTE_ARRAY
    immutable = False
    in_columns = False

    @override
    def check(self, value: Any) -> Any:
        return value

    @override
    def to_plain(self, value: Any) -> Any:
        try:
            return pickle.dumps(value, protocol=4)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise self.wrong(value, why_not_kept(error)) from error
        except StopIteration as error:  # map() over many values would end at it, and lose the rest
            raise self.wrong(value, _STOPS) from error

    @override
    def from_plain(self, plain: Any) -> Any:
        try:
            return pickle.loads(plain)  # noqa: S301 - the job asked for pickle by this type
        except UserFunctionError as error:  # see `ProgramClasses`
            raise UnknownClassError(error.message, hint=error.hint) from error
        except (AttributeError, ImportError) as error:
            message = f"A pickled object can't be read: {error}."
            hint = "its class is gone: the program's file has it no more, or the module of the class isn't there"
            raise UnknownClassError(message, hint=hint) from error
        except StopIteration as error:
            message = "A pickled object can't be read: its class raised StopIteration."
            raise UnknownClassError(message, hint=_STOPS) from error


TEXTS: tuple[Scalar, ...] = (Text(), Char(), Pickled())
