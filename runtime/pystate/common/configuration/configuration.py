"""`Configuration`: option values with their origins, as the program, the command line and `flink-conf.toml` set them."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar, cast

from pystate.common.configuration.config_option import ConfigOption
from pystate.common.configuration.keys_without_effect import why_without_effect
from pystate.common.configuration.option_types import BooleanType, IntegerType, ValueType
from pystate.common.configuration.options import ALL_OPTIONS, SPARK_PREFIX, canonical_key, is_known, nearest_key, option_of
from pystate.common.configuration.refused_keys import REFUSED_KEYS, refusal_of
from pystate.common.configuration.sensitive_keys import without_secrets
from pystate.common.errors import ConfigurationError
from pystate.common.not_there import not_there

T = TypeVar("T")
_Keys = set[str]  # inside the class `set` is a method


class OriginKind(Enum):
    """The kind of origin of a value."""

    DEFAULT = "default"
    BUILT_IN = "built-in"
    FILE = "file"
    COMMAND_LINE = "command line"
    CODE = "program"


@dataclass(frozen=True)
class Origin:
    """The origin of a value.

    Attributes:
        kind: The level.
        place: For a file its path and the TOML path, for the command line the option; empty otherwise.
    """

    kind: OriginKind
    place: str = ""

    def __str__(self) -> str:
        """Return the place, or the level if it has none."""
        return self.place or self.kind.value

    def to_text(self) -> str:
        """Return level and place in one text."""
        return f"{self.kind.value}: {self.place}" if self.place else self.kind.value

    @staticmethod
    def from_text(text: str) -> Origin | None:
        """Return the origin that `to_text` wrote; None for another text."""
        level, _, place = text.partition(": ")
        return Origin(OriginKind(level), place) if level in {kind.value for kind in OriginKind} else None


_DEFAULT = Origin(OriginKind.DEFAULT)
_CODE = Origin(OriginKind.CODE)
# the first parts of our keys; a program may keep parameters of its own under any other
_NAMESPACES = frozenset(key.partition(".")[0] for key in (*ALL_OPTIONS, SPARK_PREFIX))


class Configuration:
    """Values by key, kept as text, with PyFlink's methods.

    An older name of a key is equivalent to the current name everywhere. A value of a known option is checked when it is set.
    A key that is neither an option nor one of Flink's is rejected if its first part is one of ours (`state.`, ...), else it
    is kept as a parameter of the program. Flink's options without effect here are kept too, see `notices`.

    Args:
        other: Initial values, or a configuration to copy; they count as set by the program.
    """

    def __init__(self, other: Mapping[str, str] | Configuration | None = None) -> None:
        self._values: dict[str, str] = {}
        self._origins: dict[str, Origin] = {}
        for key, value in (other.to_dict() if isinstance(other, Configuration) else other or {}).items():
            self.set_string(key, value)

    @staticmethod
    def from_dict(map: Mapping[str, Any]) -> Configuration:  # noqa: A002 - its name in PyFlink
        """Return a configuration of these values, which count as set by the program."""
        return Configuration({key: str(value) for key, value in map.items()})

    @staticmethod
    def parse_list_value(value: str) -> list[str]:
        """Return the parts of a `;`-separated text, or of a YAML flow list."""
        if value.startswith("[") and value.endswith("]"):
            return [part.strip().strip("\"'") for part in value[1:-1].split(",") if part.strip()]
        return [part for part in value.split(";") if part]

    # -- by option

    def get(self, option: ConfigOption[T]) -> T:
        """Return the option's value: durations in ms, sizes in bytes, enums as members; its default where none is set."""
        text = self._values.get(option.key)
        return option.default if text is None else cast(T, self._parse(option, text, self._origins[option.key]))

    def set(self, option: ConfigOption[T], value: T) -> Configuration:
        """Set the option; None removes it.

        Raises:
            ConfigurationError: The value is not allowed.
        """
        if value is None:
            self.remove_config(option.key)
            return self
        try:
            text = option.type.format(value)
        except ValueError as error:
            raise _bad_value(option.key, str(value), option.type, _CODE) from error
        return self._put(option.key, text, _CODE)

    def contains(self, option: ConfigOption[Any]) -> bool:
        """Return whether the option is set."""
        return option.key in self._values

    def origin(self, key: str) -> Origin:
        """Return where the value of a key was set."""
        return self._origins.get(canonical_key(key), _DEFAULT)

    # -- by key, as in PyFlink

    def get_string(self, key: str, default_value: str) -> str:
        """Return the value as text."""
        return self._values.get(canonical_key(key), default_value)

    def set_string(self, key: str, value: str) -> Configuration:
        """Set a value.

        Raises:
            ConfigurationError: The key is misspelt, or the value is not allowed.
        """
        if not isinstance(value, str):
            raise _bad_value(key, repr(value), None, _CODE)
        return self.set_checked(key, value, _CODE)

    def get_integer(self, key: str, default_value: int) -> int:
        """Return the value as a whole number."""
        return self._get_as(key, IntegerType(), default_value)

    def set_integer(self, key: str, value: int) -> Configuration:
        """Set a whole number."""
        return self._set_as(key, IntegerType(), value)

    def get_boolean(self, key: str, default_value: bool) -> bool:
        """Return the value as a truth value."""
        return self._get_as(key, BooleanType(), default_value)

    def set_boolean(self, key: str, value: bool) -> Configuration:
        """Set a truth value."""
        return self._set_as(key, BooleanType(), value)

    def get_float(self, key: str, default_value: float) -> float:
        """Return the value as a number."""
        text = self._values.get(canonical_key(key))
        if text is None:
            return default_value
        try:
            return float(text)
        except ValueError as error:
            message = f"The value {text!r} of {key!r} is no number."
            raise ConfigurationError(message, where=str(self.origin(key))) from error

    def set_float(self, key: str, value: float) -> Configuration:
        """Set a number."""
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise _bad_value(key, repr(value), None, _CODE)
        return self.set_checked(key, repr(value), _CODE)

    def get_bytearray(self, key: str, default_value: bytearray) -> bytearray:
        """Return the bytes that `set_bytearray` wrote.

        Raises:
            ConfigurationError: The value is none of these.
        """
        text = self._values.get(canonical_key(key))
        try:
            return default_value if text is None else bytearray(base64.b64decode(text, validate=True))
        except ValueError as error:
            message = f"The value of {key!r} is no bytes in base64."
            raise ConfigurationError(message, where=str(self.origin(key))) from error

    def set_bytearray(self, key: str, value: bytes | bytearray) -> Configuration:
        """Set bytes; values are texts, so they are written in base64."""
        return self.set_string(key, base64.b64encode(value).decode())

    def contains_key(self, key: str) -> bool:
        """Return whether the key is set."""
        return canonical_key(key) in self._values

    def key_set(self) -> _Keys:
        """Return the keys that are set."""
        return set(self._values)

    def remove_config(self, key: str) -> bool:
        """Forget a value; return whether there was one."""
        key = canonical_key(key)
        self._origins.pop(key, None)
        return self._values.pop(key, None) is not None

    def add_all(self, other: Configuration, prefix: str | None = None) -> Configuration:
        """Take over everything set in `other`; with `prefix`, put it before each key."""
        for key, value, origin in other.items():
            if prefix:
                self.set_checked(prefix + key, value, origin)
            else:
                self._put(key, value, origin)
        return self

    def add_all_to_dict(self, target_dict: dict[str, str]) -> None:
        """Put every value into `target_dict`."""
        target_dict.update(self._values)

    def to_dict(self) -> dict[str, str]:
        """Return key -> text; `Configuration(values)` reads it back."""
        return dict(self._values)

    def origins(self) -> dict[str, str]:
        """Return key -> where its value was set, see `Origin.to_text`."""
        return {key: origin.to_text() for key, origin in self._origins.items()}

    # -- the rest

    def items(self) -> Iterator[tuple[str, str, Origin]]:
        """Iterate over (key, text, origin)."""
        for key, value in self._values.items():
            yield key, value, self._origins[key]

    def notices(self) -> list[str]:
        """Return a sentence for each Flink option without effect that the program has set."""
        return [
            f"{key!r} has no effect: {why}."
            for key in self._values
            if not is_known(key) and (why := why_without_effect(key)) is not None
        ]

    def spark_properties(self) -> dict[str, str]:
        """Return the keys that begin with `spark.`, for Spark."""
        return {key: value for key, value in self._values.items() if key.startswith(SPARK_PREFIX)}

    def copy(self) -> Configuration:
        """Return an independent copy, with the origins."""
        return Configuration().add_all(self)

    def set_checked(self, key: str, value: str, origin: Origin) -> Configuration:
        """Set a value that came from `origin`.

        Raises:
            ConfigurationError: The key is misspelt, or the value is not allowed.
        """
        key = canonical_key(key)
        option = option_of(key)
        if option is not None:
            value = option.type.format(self._parse(option, value, origin))  # one spelling: "10 s" for "10s"
        elif not is_known(key):
            check_foreign(key, value, origin)
        return self._put(key, value, origin)

    def _put(self, key: str, value: str, origin: Origin) -> Configuration:
        self._values[key] = value
        self._origins[key] = origin
        return self

    def _get_as(self, key: str, value_type: ValueType[T], default_value: T) -> T:
        text = self._values.get(canonical_key(key))
        if text is None:
            return default_value
        try:
            return value_type.parse(text)
        except ValueError as error:
            raise _bad_value(key, text, value_type, self.origin(key)) from error

    def _set_as(self, key: str, value_type: ValueType[T], value: T) -> Configuration:
        try:
            text = value_type.format(value)
        except ValueError as error:
            raise _bad_value(key, repr(value), value_type, _CODE) from error
        return self.set_checked(key, text, _CODE)

    @staticmethod
    def _parse(option: ConfigOption[Any], text: str, origin: Origin) -> Any:
        try:
            return option.type.parse(text)
        except ValueError as error:
            raise _bad_value(option.key, text, option.type, origin) from error

    def __eq__(self, other: object) -> bool:
        """Compare the values, without their origins."""
        if not isinstance(other, Configuration):
            return NotImplemented
        return self._values == other.to_dict()

    __hash__ = None  # type: ignore[assignment]  # it can change

    def __str__(self) -> str:
        """Return the values in the form of a Java map, without secrets."""
        return f"{{{', '.join(f'{key}={value}' for key, value in without_secrets(self._values).items())}}}"

    def __repr__(self) -> str:
        """Return the values, without secrets."""
        return f"Configuration({without_secrets(self._values)!r})"


def unknown_key(key: str, origin: Origin) -> ConfigurationError:
    """Return the error for an unknown key, with the most similar known one."""
    near = nearest_key(key)
    hint = f"did you mean {near!r}?" if near else "pystate config lists all options"
    return ConfigurationError(f"There is no option {key!r}.", where=str(origin), hint=hint)


def check_foreign(key: str, value: str, origin: Origin, *, own_parameters: bool = True) -> None:
    """Reject an unknown key, unless it is a Flink option without effect, or may be a parameter of the program.

    Raises:
        ConfigurationError: It is unknown, or a Flink option that would be harmful to ignore.
    """
    refusal = refusal_of(key, value)
    if refusal is not None:
        by_name = key in REFUSED_KEYS  # else it may be misspelt, and its value a secret
        near = None if by_name else nearest_key(key)
        message = f"{key} = {value} can't" if by_name else f"{key!r} can't"
        message += f" be honoured: {refusal.why}."
        hint = refusal.hint if near is None else f"did you mean {near!r}? Else {refusal.hint}"
        raise ConfigurationError(message, where=str(origin), hint=hint)
    is_parameter = own_parameters and key.strip() and key.partition(".")[0] not in _NAMESPACES
    if why_without_effect(key) is None and not is_parameter:
        raise unknown_key(key, origin)


def _bad_value(key: str, text: str, value_type: ValueType[Any] | None, origin: Origin) -> ConfigurationError:
    message = f"The value {text!r} of {key!r} is not allowed."
    allowed = value_type.allowed if value_type is not None else "a text or a number, by the method that fits"
    near = value_type.nearest(text) if value_type is not None else None
    hint = f"allowed: {allowed}" + (f"; did you mean {near!r}?" if near else "")
    return ConfigurationError(message, where=str(origin), hint=hint)


add_jars_to_context_class_loader = not_there(
    "add_jars_to_context_class_loader",
    "there are no Java classes of Flink's to load.",
    "spark.jars names those of Spark's sources",
)
