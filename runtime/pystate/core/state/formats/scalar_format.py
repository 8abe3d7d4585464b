"""The base of formats of scalar values."""

from __future__ import annotations

from typing import Any

from pystate.common.errors import StateError
from pystate.common.type_info import TypeKind
from pystate.common.type_rules import SCALAR_RULES, Conform, WrongValueError
from pystate.core.state.formats.key_bytes import wrong_key
from pystate.core.state.formats.type_format import Format


class Scalar(Format):
    """Values of the exact type are accepted first; others are converted by the type's rule, or rejected.

    Attributes:
        kind: The type.
    """

    kind: TypeKind

    def __init__(self) -> None:
        self.name = self.kind.value
        self.rule: Conform = SCALAR_RULES[self.kind]

    def conformed(self, value: Any) -> Any:
        """Return a value of another type as one of this type."""
        try:
            return self.rule(value)
        except WrongValueError as error:
            raise self.wrong(value, error.why) from None

    def right_key(self, value: Any) -> Any:
        """Return a key of another type as one of this type."""
        try:
            if value is not None:
                return self.rule(value)
        except WrongValueError:
            pass
        raise self.wrong_key(value)

    def wrong_key(self, value: Any) -> StateError:
        """Return the error for a key of another type."""
        return wrong_key(value, self.name)
