"""The types of option values: parsing, formatting, and descriptions.

Every value is kept as text, so that a configuration crosses processes unchanged; these types say what a text means.
"""

from __future__ import annotations

import difflib
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Generic, TypeVar

from pystate.common.text.place_text import fault_of_place
from pystate.common.time import Duration, Time, format_duration, parse_duration, parse_memory_size

V = TypeVar("V")
E = TypeVar("E", bound=Enum)

ANY_PORT = range(1)
"""Port 0 alone: the operating system chooses."""
_LAST_PORT = 65_535
_TRUE, _FALSE = "true", "false"
_UMASK = re.compile(r"0?0[0-7]{2}")
_URL_PREFIX = re.compile(r"(/[A-Za-z0-9._-]+)+")
_MEMORY_UNITS = (("gb", 1 << 30), ("mb", 1 << 20), ("kb", 1 << 10))


class ValueType(ABC, Generic[V]):
    """Reads and writes the values of an option. `parse` and `format` raise ValueError for invalid values."""

    @property
    @abstractmethod
    def allowed(self) -> str:
        """Return the allowed values, as the end of the sentence "allowed: ..."."""

    @abstractmethod
    def parse(self, text: str) -> V:
        """Return the value of a text."""

    @abstractmethod
    def format(self, value: Any) -> str:
        """Return the text that `parse` converts back to `value`."""

    def to_toml(self, value: V) -> str:
        """Return the value in TOML notation."""
        return toml_string(self.format(value))

    def nearest(self, text: str) -> str | None:
        """Return the allowed value most similar to `text`; None if none is similar."""
        del text
        return None


class StringType(ValueType[str]):
    """Any text.

    Args:
        meaning: What the text is, for people: "a path", "a host name".
    """

    def __init__(self, meaning: str = "any text") -> None:
        self._meaning = meaning

    @property
    def allowed(self) -> str:
        """Return the meaning."""
        return self._meaning

    def parse(self, text: str) -> str:
        """Return the text."""
        return text

    def format(self, value: Any) -> str:
        """Return the text."""
        if not isinstance(value, str):
            message = f"{value!r} is no text"
            raise ValueError(message)
        return value


class PlaceType(StringType):
    """A location that is read or written: a path or a URL."""

    def parse(self, text: str) -> str:
        """Return the text; control characters, chained URLs and HTTP or FTP URLs are rejected."""
        fault = fault_of_place(text)
        if fault is not None:
            raise ValueError(fault.rstrip("."))
        return text

    def format(self, value: Any) -> str:
        """Return the text, checked as in `parse`."""
        return self.parse(super().format(value))


class UrlPrefixType(StringType):
    """The beginning of a URL's path."""

    @property
    def allowed(self) -> str:
        """Name the form."""
        return "a path of words of letters, digits, '-', '_' and '.', such as /streams/pystate"

    def parse(self, text: str) -> str:
        """Return the path without a slash at its end."""
        found = text.rstrip("/")
        if found and (not _URL_PREFIX.fullmatch(found) or {".", ".."} & set(found.split("/"))):
            message = f"{text!r} is no such path"
            raise ValueError(message)
        return found

    def format(self, value: Any) -> str:
        """Return the text, checked as in `parse`."""
        return self.parse(super().format(value))


class UmaskType(ValueType[int]):
    """A file mode mask in the notation of `umask`. It must not contain the owner's bits."""

    @property
    def allowed(self) -> str:
        """Name the form."""
        return 'three octal digits in quotes, the first one 0, such as "077" or "027"'

    def parse(self, text: str) -> int:
        """Read octal digits."""
        if not _UMASK.fullmatch(text):
            message = f"{text!r} is no umask"
            raise ValueError(message)
        return int(text, 8)

    def format(self, value: Any) -> str:
        """Return octal digits."""
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 0o077:
            message = f"{value!r} is no umask"
            raise ValueError(message)
        return f"{value:03o}"


class BooleanType(ValueType[bool]):
    """`true` or `false`."""

    @property
    def allowed(self) -> str:
        """Name both values."""
        return "true or false"

    def parse(self, text: str) -> bool:
        """Read `true` or `false`, in upper or lower case."""
        lowered = text.strip().lower()
        if lowered not in (_TRUE, _FALSE):
            message = f"{text!r} is neither true nor false"
            raise ValueError(message)
        return lowered == _TRUE

    def format(self, value: Any) -> str:
        """Return `true` or `false`."""
        if not isinstance(value, bool):
            message = f"{value!r} is neither True nor False"
            raise ValueError(message)
        return _TRUE if value else _FALSE

    def to_toml(self, value: bool) -> str:
        """Return the bare word."""
        return self.format(value)


class IntegerType(ValueType[int]):
    """A whole number.

    Args:
        minimum: The smallest value allowed.
        maximum: The largest value allowed.
        special: One more value with a meaning of its own, such as -1.
    """

    def __init__(self, minimum: int | None = None, maximum: int | None = None, special: int | None = None) -> None:
        self._minimum = minimum
        self._maximum = maximum
        self._special = special

    @property
    def allowed(self) -> str:
        """Name the range."""
        if self._minimum is not None and self._maximum is not None:
            text = f"a whole number from {self._minimum} to {self._maximum}"
        elif self._minimum is not None:
            text = f"a whole number from {self._minimum}"
        elif self._maximum is not None:
            text = f"a whole number up to {self._maximum}"
        else:
            text = "a whole number"
        return text if self._special is None else f"{text}, or {self._special}"

    def _check(self, value: int) -> int:
        too_small = self._minimum is not None and value < self._minimum
        too_large = self._maximum is not None and value > self._maximum
        if (too_small or too_large) and value != self._special:
            message = f"{value} is out of range"
            raise ValueError(message)
        return value

    def parse(self, text: str) -> int:
        """Read a whole number in the range."""
        return self._check(int(text))

    def format(self, value: Any) -> str:
        """Return the digits."""
        if not isinstance(value, int) or isinstance(value, bool):
            message = f"{value!r} is no whole number"
            raise ValueError(message)
        return str(self._check(value))

    def to_toml(self, value: int) -> str:
        """Return the bare number."""
        return self.format(value)


class FloatType(ValueType[float]):
    """A number.

    Args:
        minimum: The smallest value allowed.
        maximum: The largest value allowed; None for no bound.
        above: Whether the minimum itself is not allowed.
    """

    def __init__(self, minimum: float, maximum: float | None = None, *, above: bool = False) -> None:
        self._minimum = minimum
        self._maximum = maximum
        self._above = above

    @property
    def allowed(self) -> str:
        """Name the range."""
        text = f"a number {'above' if self._above else 'from'} {self._minimum:g}"
        return text if self._maximum is None else f"{text} to {self._maximum:g}"

    def parse(self, text: str) -> float:
        """Read the number's digits."""
        return self._check(float(text))

    def _check(self, value: float) -> float:
        low = value <= self._minimum if self._above else value < self._minimum
        if low or not math.isfinite(value) or (self._maximum is not None and value > self._maximum):
            message = f"{value} is out of range"
            raise ValueError(message)
        return value

    def format(self, value: Any) -> str:
        """Return the shortest digits that represent the number."""
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            message = f"{value!r} is no number"
            raise ValueError(message)
        return repr(self._check(float(value)))

    def to_toml(self, value: float) -> str:
        """Return the digits."""
        return self.format(value)


class DurationType(ValueType[int]):
    """A length of time in milliseconds; `Duration` and `Time` are accepted too.

    Args:
        minimum: The shortest allowed, in milliseconds.
    """

    def __init__(self, minimum: int = 0) -> None:
        self._minimum = minimum

    @property
    def allowed(self) -> str:
        """Return the notation and the minimum."""
        text = 'a duration such as "10 s", "500 ms", "2 min"'
        return f"{text}, at least {format_duration(self._minimum)}" if self._minimum else text

    def _check(self, millis: int) -> int:
        if millis < self._minimum:
            message = f"{millis} ms is too short"
            raise ValueError(message)
        return millis

    def parse(self, text: str) -> int:
        """Read a duration; a bare number is milliseconds."""
        return self._check(parse_duration(text))

    def format(self, value: Any) -> str:
        """Return number and unit."""
        if isinstance(value, Duration):
            value = value.to_millis()
        elif isinstance(value, Time):
            value = value.to_milliseconds()
        if not isinstance(value, int) or isinstance(value, bool):
            message = f"{value!r} is no length of time"
            raise ValueError(message)
        return format_duration(self._check(value))


class MemorySizeType(ValueType[int]):
    """A number of bytes.

    Args:
        maximum: The largest size allowed, in bytes.
        minimum: The smallest one.
    """

    def __init__(self, maximum: int | None = None, minimum: int = 0) -> None:
        self._maximum = maximum
        self._minimum = minimum

    @property
    def allowed(self) -> str:
        """Return the notation, the minimum and the maximum."""
        text = 'a memory size such as "20 kb", "64 mb", "1 gb"'
        if self._minimum:
            text = f"{text}, at least {_format_size(self._minimum)}"
        return text if self._maximum is None else f"{text}, at most {_format_size(self._maximum)}"

    def _check(self, size: int) -> int:
        if size < self._minimum or (self._maximum is not None and size > self._maximum):
            message = f"{size} bytes is out of range"
            raise ValueError(message)
        return size

    def parse(self, text: str) -> int:
        """Read a memory size; a bare number is bytes."""
        return self._check(parse_memory_size(text))

    def format(self, value: Any) -> str:
        """Return number and unit."""
        if not isinstance(value, int) or isinstance(value, bool):
            message = f"{value!r} is no number of bytes"
            raise ValueError(message)
        return _format_size(self._check(value))


class EnumType(ValueType[E]):
    """A member of an enum, identified by its value in upper or lower case.

    Args:
        members: The enum; its values are texts.
        aliases: Other names, in lower case, to the values they stand for.
    """

    def __init__(self, members: type[E], aliases: Mapping[str, str] | None = None) -> None:
        self._members = {str(member.value).lower(): member for member in members}
        self._names = [str(member.value) for member in members]
        for alias, value in (aliases or {}).items():
            self._members[alias] = self._members[value.lower()]

    @property
    def allowed(self) -> str:
        """Name the values."""
        return self._names[0] if len(self._names) == 1 else f"{', '.join(self._names[:-1])} or {self._names[-1]}"

    def parse(self, text: str) -> E:
        """Return the member of that name."""
        member = self._members.get(text.strip().lower())
        if member is None:
            message = f"{text!r} is none of them"
            raise ValueError(message)
        return member

    def format(self, value: Any) -> str:
        """Return the member's value; a text is accepted, too."""
        text = value.value if isinstance(value, Enum) else value
        if not isinstance(text, str):
            message = f"{value!r} is none of them"
            raise ValueError(message)
        return str(self.parse(text).value)

    def nearest(self, text: str) -> str | None:
        """Return the nearest name."""
        return nearest_name(text, self._members)


class PortRangeType(ValueType[range]):
    """Ports to choose from: 0 for any free one, a number, or two numbers with a hyphen between them."""

    @property
    def allowed(self) -> str:
        """Name the forms."""
        return '0 (any free port), a port, or a range such as "50100-50200"'

    def parse(self, text: str) -> range:
        """Return the ports."""
        first, hyphen, last = text.partition("-")
        ports = range(int(first), int(last if hyphen else first) + 1)
        if ports != ANY_PORT and (not ports or ports[0] < 1 or ports[-1] > _LAST_PORT):
            message = f"{text!r} is no range of ports"
            raise ValueError(message)
        return ports

    def format(self, value: Any) -> str:
        """Return the range; a text is accepted, too."""
        ports = value if isinstance(value, range) else self.parse(str(value))
        return str(ports[0]) if len(ports) == 1 else f"{ports[0]}-{ports[-1]}"


_FACTORY_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*[.:][A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


class NameOrFactoryType(ValueType[str]):
    """A known name in upper or lower case, or the path of a class or function: `package.module:Class`.

    Args:
        names: The names.
        old_names: More names that are accepted, but not recommended.
    """

    def __init__(self, names: Sequence[str], old_names: Sequence[str] = ()) -> None:
        self._names = tuple(names)
        self._all_names = (*names, *old_names)

    @property
    def allowed(self) -> str:
        """Return the names, and the form of a path."""
        return f"{', '.join(self._names)} or the path of a factory, package.module:Class"

    def parse(self, text: str) -> str:
        """Return the name, or the path."""
        lowered = text.strip().lower()
        if lowered in self._all_names:
            return lowered
        if _FACTORY_PATH.fullmatch(text.strip()) is None:
            message = f"{text!r} is neither a name nor a path"
            raise ValueError(message)
        return text.strip()

    def format(self, value: Any) -> str:
        """Return the name, or the path."""
        if not isinstance(value, str):
            message = f"{value!r} is no text"
            raise ValueError(message)
        return self.parse(value)

    def nearest(self, text: str) -> str | None:
        """Return the nearest name."""
        return nearest_name(text, self._all_names)


def nearest_name(text: str, names: Iterable[str]) -> str | None:
    """Return the name most similar to `text`, ignoring case; None if none is similar."""
    near = difflib.get_close_matches(text.strip().lower(), list(names), n=1, cutoff=0.6)
    return near[0] if near else None


def toml_string(text: str) -> str:
    """Return the text as a TOML basic string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\u{ord(c):04X}" for c in escaped) + '"'


def _format_size(size: int) -> str:
    for unit, length in _MEMORY_UNITS:
        if size and size % length == 0:
            return f"{size // length} {unit}"
    return f"{size} b"
