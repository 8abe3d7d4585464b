"""Options of the program's own: `ConfigOptions.key("my.key").int_type().default_value(3)`."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from pystate.common.configuration.config_option import ConfigOption
from pystate.common.configuration.option_types import BooleanType, FloatType, IntegerType, StringType, ValueType

__all__ = ["ConfigOption", "ConfigOptions"]

T = TypeVar("T")


class ConfigOptions:
    """Where the definition of an option begins."""

    @staticmethod
    def key(key: str) -> ConfigOptions.OptionBuilder:
        """Begin the option of that key."""
        return ConfigOptions.OptionBuilder(key)

    class OptionBuilder:
        """Asks for the type of the option.

        Args:
            key: Its name.
        """

        def __init__(self, key: str) -> None:
            self._key = key

        def boolean_type(self) -> ConfigOptions.TypedConfigOptionBuilder[bool]:
            """Say that it is true or false."""
            return self._of(BooleanType())

        def int_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            """Say that it is a whole number."""
            return self._of(IntegerType(minimum=-(1 << 31), maximum=(1 << 31) - 1))

        def long_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            """Say that it is a whole number of 64 bits."""
            return self._of(IntegerType(minimum=-(1 << 63), maximum=(1 << 63) - 1))

        def float_type(self) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            """Say that it is a number."""
            return self.double_type()

        def double_type(self) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            """Say that it is a number."""
            return self._of(FloatType(float("-inf")))

        def string_type(self) -> ConfigOptions.TypedConfigOptionBuilder[str]:
            """Say that it is a text."""
            return self._of(StringType())

        def _of(self, value_type: ValueType[Any]) -> ConfigOptions.TypedConfigOptionBuilder[Any]:
            return ConfigOptions.TypedConfigOptionBuilder(self._key, value_type)

    class TypedConfigOptionBuilder(Generic[T]):
        """Asks for the default of the option.

        Args:
            key: Its name.
            value_type: How its values are read and written.
        """

        def __init__(self, key: str, value_type: ValueType[Any]) -> None:
            self._key = key
            self._type = value_type

        def default_value(self, value: T) -> ConfigOption[T]:
            """Return the option, with the value where none is set."""
            return ConfigOption(self._key, self._type, value, "")

        def no_default_value(self) -> ConfigOption[T | None]:
            """Return the option, None if none is set."""
            return ConfigOption[T | None](self._key, self._type, None, "")
