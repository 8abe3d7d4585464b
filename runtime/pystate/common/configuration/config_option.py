"""The definition of a configuration option."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pystate.common.configuration.option_types import ValueType

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class ConfigOption(Generic[T]):
    """One option.

    Attributes:
        key: Its name, as in Flink.
        type: How its values are read and written.
        default: The value where none is set; None means there is none.
        description: What it does, in sentences.
        fallback_keys: Older names, read as this one with a notice.
    """

    key: str
    type: ValueType[Any]
    default: T
    description: str
    fallback_keys: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        """Say which values are allowed."""
        return self.type.allowed


def options_of(group: type) -> list[ConfigOption[Any]]:
    """Return the options of a group in the order of their definition."""
    return [value for value in vars(group).values() if isinstance(value, ConfigOption)]
