"""`override`, which marks a method as an override that is documented in the base class.

Such a method needs no docstring of its own, and mypy checks that there is one to override. It is `typing.override`, which
Python has from 3.12 on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from typing_extensions import override as override
else:
    _Method = TypeVar("_Method")

    def override(method: _Method) -> _Method:
        """Return the method as it is."""
        return method
