"""Converts dataclasses to plain data (the types of JSON and msgpack) and back, by their fields and types.

A field is an entry of a map under its own name. Its type says how its value is read, and checked: numbers, texts, truths,
enums (by value), lists, tuples of one kind, maps, unions, and every class that has `to_plain` and `from_plain` itself.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from enum import Enum
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

MAX_INT = 2**63 - 1

T = TypeVar("T", bound="PlainData")
Open = TypeVar("Open", bound="OpenPlainData")
Reader = Callable[[Any], Any]
_ENTRY, _UNLESS_NONE = "plain data: entry", "plain data: unless None"
_MISSING = "is missing"
_NOTHING = type(None)
_PLAIN = frozenset((str, int, float, bool, bytes, _NOTHING))
"""What nearly all values are: they are not asked whether they are something else, which takes most of the time."""
_KNOWN: dict[type, dict[str, Entry]] = {}


class PlainDataError(ValueError):
    """Plain data doesn't match its type; the message is the end of a sentence."""


@dataclass(frozen=True)
class Bounds:
    """The inclusive bounds of an integer."""

    low: int
    high: int


Natural = Annotated[int, Bounds(0, MAX_INT)]
"""A whole number from 0 to 2^63 - 1."""


@dataclass(frozen=True)
class Pattern:
    """The form of a text as a regular expression; documentation only, not checked."""

    regex: str


@dataclass(frozen=True)
class Entry:
    """The entry of a field in plain data.

    Attributes:
        key: The key of the entry.
        kind: Its type.
        read: Checks and reads its value.
        has_default: Whether the field has one.
        unless_none: Whether the entry is omitted if the value is None.
    """

    key: str
    kind: Any
    read: Reader
    has_default: bool
    unless_none: bool


def entry(name: str, default: Any = MISSING) -> Any:
    """Return a dataclass field whose entry has another name than the field."""
    return field(default=default, metadata={_ENTRY: name})


def unless_none(name: str | None = None, *, default: None = None) -> Any:
    """Return a dataclass field with default None, whose entry is omitted if it is None.

    Args:
        name: What the entry is called; None: as the field.
        default: Said for type checkers.
    """
    return field(default=default, metadata={_UNLESS_NONE: True} if name is None else {_UNLESS_NONE: True, _ENTRY: name})


def left_out(default: Any = MISSING, *, default_factory: Any = MISSING) -> Any:
    """Return a dataclass field that is omitted from plain data; read back, it has its default."""
    return field(default=default, default_factory=default_factory, metadata={_ENTRY: None})


class PlainData:
    """The base of dataclasses that are converted to plain data and back.

    Attributes:
        missing_is_default: Whether entries of fields with defaults may be missing when read.
    """

    missing_is_default: ClassVar[bool] = False

    def to_plain(self) -> dict[str, Any]:
        """Return it as plain data."""
        plain: dict[str, Any] = {}
        for name, one in entries(type(self)).items():
            value = getattr(self, name)
            if value is not None or not one.unless_none:
                plain[one.key] = value if type(value) in _PLAIN else to_plain(value)
        return plain

    @classmethod
    def from_plain(cls: type[T], plain: Any) -> T:
        """Rebuild it; unknown entries are ignored.

        Raises:
            PlainDataError: It isn't one, or what `plain_error` makes of that.
        """
        key = None
        try:
            if type(plain) is not dict and not isinstance(plain, Mapping):
                raise PlainDataError(_unlike(plain, "a map"))
            values = {}
            for name, one in entries(cls).items():
                key = one.key
                if key in plain:
                    values[name] = one.read(plain[key])
                elif not (one.unless_none or (cls.missing_is_default and one.has_default)):
                    raise PlainDataError(_MISSING)
        except PlainDataError as error:
            what = f"of a {cls.__name__} {error}" if key is None else f"of a {cls.__name__} {key!r} {error}"
            raise cls.plain_error(what) from error
        return cls(**values)

    @classmethod
    def plain_error(cls, what: str) -> Exception:
        """Return the error for plain data that doesn't match."""
        return PlainDataError(what)


@dataclass(frozen=True, kw_only=True)
class OpenPlainData(PlainData):
    """The base of data exchanged between versions: entries with defaults may be missing, and unknown ones are kept.

    Attributes:
        others: Entries that this version knows nothing of.
    """

    missing_is_default: ClassVar[bool] = True

    others: dict[str, Any] = left_out(default_factory=dict)

    def to_plain(self) -> dict[str, Any]:
        """Return it as plain data, including entries unknown to this version."""
        return {**self.others, **super().to_plain()}

    @classmethod
    def from_plain(cls: type[Open], plain: Any) -> Open:
        """Rebuild it.

        Raises:
            PlainDataError: It isn't one, or what `plain_error` makes of that.
        """
        known = super().from_plain(plain)
        names = {one.key for one in entries(cls).values()}
        return replace(known, others={key: value for key, value in plain.items() if key not in names})


def to_plain(value: Any) -> Any:
    """Return a value as plain data."""
    if type(value) in _PLAIN:
        return value
    if hasattr(value, "to_plain"):
        return value.to_plain()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {to_plain(key): to_plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(inner) for inner in value]
    return value


def entries(cls: type[PlainData]) -> dict[str, Entry]:
    """Return the entries of the fields of a class in plain data, by field name, without omitted fields."""
    known = _KNOWN.get(cls)
    if known is None:
        hints = get_type_hints(cls, include_extras=True)
        known = {}
        for one in fields(cls):  # type: ignore[arg-type]
            key, kind = one.metadata.get(_ENTRY, one.name), hints[one.name]
            if key is not None:
                has_default = one.default is not MISSING or one.default_factory is not MISSING
                known[one.name] = Entry(key, kind, _reader(kind), has_default, one.metadata.get(_UNLESS_NONE, False))
        _KNOWN[cls] = known  # whole: another thread that saw a part of it would write a part of what it writes
    return known


def _reader(kind: Any) -> Reader:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return lambda value: value
    if origin is Annotated:
        bounds = [one for one in arguments[1:] if isinstance(one, Bounds)]
        return _number(*bounds) if bounds else _reader(arguments[0])
    if origin is Literal:
        return _member({word: word for word in arguments})
    if origin in (Union, types.UnionType):
        return _one_of([_reader(inner) for inner in arguments if inner is not _NOTHING], or_nothing=_NOTHING in arguments)
    if origin in (list, tuple):
        return _sequence(origin, _reader(arguments[0]))
    if origin is dict:
        return _map(_reader(arguments[0]), _reader(arguments[1]))
    if hasattr(kind, "from_plain"):
        read: Reader = kind.from_plain
        return read
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _member({member.value: member for member in kind})
    return _number() if kind is int else _exactly(kind)


def _exactly(kind: type) -> Reader:
    # a float without fractional digits may arrive as an integer
    kinds = (float, int) if kind is float else (kind,)

    def read(value: Any) -> Any:
        if type(value) not in kinds:
            raise PlainDataError(_unlike(value, f"of type {kind.__name__}"))
        return value

    return read


def _number(bounds: Bounds = Bounds(-MAX_INT - 1, MAX_INT)) -> Reader:  # noqa: B008 - it can't be changed
    low, high = bounds.low, bounds.high

    def read(value: Any) -> int:
        if type(value) is not int or not low <= value <= high:
            raise PlainDataError(_unlike(value, f"a number from {low} to {high}"))
        return value

    return read


def _member(members: Mapping[Any, Any]) -> Reader:
    def read(value: Any) -> Any:
        try:
            return members[value]
        except (KeyError, TypeError):
            raise PlainDataError(_unlike(value, f"any of {', '.join(map(str, members))}")) from None

    return read


def _one_of(readers: list[Reader], *, or_nothing: bool) -> Reader:
    def read(value: Any) -> Any:
        if value is None and or_nothing:
            return None
        failed: ValueError | None = None
        for one in readers:
            try:
                return one(value)
            except ValueError as error:  # a PlainDataError, or what a class makes of it
                failed = failed or error
        raise failed or PlainDataError(_unlike(value, "known"))

    return read


def _sequence(kind: Callable[[list[Any]], Any], item: Reader) -> Reader:
    def read(value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            raise PlainDataError(_unlike(value, "a list"))
        return kind([item(one) for one in value])

    return read


def _map(key: Reader, inner: Reader) -> Reader:
    def read(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise PlainDataError(_unlike(value, "a map"))
        return {key(name): inner(one) for name, one in value.items()}

    return read


def _unlike(value: Any, wanted: str) -> str:
    text = repr(value)
    return f"is {text if len(text) <= 80 else f'{text[:77]}...'}, not {wanted}"
