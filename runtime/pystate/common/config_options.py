"""Builders of the program's own options: `ConfigOptions.key("my.key").int_type().default_value(3)`."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from pystate.common.configuration.config_option import ConfigOption
from pystate.common.configuration.option_types import BooleanType, FloatType, IntegerType, StringType, ValueType

__all__ = ["ConfigOption", "ConfigOptions"]

T = TypeVar("T")


class ConfigOptions:
    """The entry point for defining an option."""

    @staticmethod
    def key(key: str) -> ConfigOptions.OptionBuilder:
        """Start the definition of the option with that key."""
        return ConfigOptions.OptionBuilder(key)

    class OptionBuilder:
        """Selects the type of the option.

        Args:
            key: Its name.
        """

        def __init__(self, key: str) -> None:
            self._key = key

        def boolean_type(self) -> ConfigOptions.TypedConfigOptionBuilder[bool]:
            """Define a boolean option."""
            return self._of(BooleanType())

        def int_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            """Define an integer option."""
            return self._of(IntegerType(minimum=-(1 << 31), maximum=(1 << 31) - 1))

        def long_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            """Define a 64-bit integer option."""
            return self._of(IntegerType(minimum=-(1 << 63), maximum=(1 << 63) - 1))

        def float_type(self) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            """Define a floating-point option."""
            return self.double_type()

        def double_type(self) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            """Define a floating-point option."""
            return self._of(FloatType(float("-inf")))

        def string_type(self) -> ConfigOptions.TypedConfigOptionBuilder[str]:
            """Define a string option."""
            return self._of(StringType())

        def _of(self, value_type: ValueType[Any]) -> ConfigOptions.TypedConfigOptionBuilder[Any]:
            return ConfigOptions.TypedConfigOptionBuilder(self._key, value_type)

    class TypedConfigOptionBuilder(Generic[T]):
        """Selects the default of the option.

        Args:
            key: Its name.
            value_type: How its values are read and written.
        """

        def __init__(self, key: str, value_type: ValueType[Any]) -> None:
            self._key = key
            self._type = value_type

        def default_value(self, value: T) -> ConfigOption[T]:
            """Return the option with a default value."""
            return ConfigOption(self._key, self._type, value, "")

        def no_default_value(self) -> ConfigOption[T | None]:
            """Return the option without a default value."""
            return ConfigOption[T | None](self._key, self._type, None, "")
