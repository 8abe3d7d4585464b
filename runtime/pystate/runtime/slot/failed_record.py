"""Finds the record that a task's functions were processing when they raised an error."""

from __future__ import annotations

from collections.abc import Hashable

from pystate.core.api.state import explain_missing_method
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.core.state.keys.key_context import NO_KEY
from pystate.runtime.slot.operators.source_input import SourceInput

_MOST_OF_A_KEY = 200
"""The maximum length of a key in an error's location."""


class FailedRecord:
    """Wraps function calls: records the current key if one raises, and explains missing methods.

    Args:
        backend: The task's keyed state; None if it has none.
        source: The task's source; None if it has none.
    """

    def __init__(self, backend: KeyedStateBackend | None, source: SourceInput | None) -> None:
        self._context = None if backend is None else backend.key_context
        self._source = source
        self._key: str | None = None
        self._before: Hashable = NO_KEY

    def place(self) -> str | None:
        """Describe the record's origin or its key; None if unknown, or if nothing has been raised."""
        return self._key if self._source is None else self._source.failed_at

    def __enter__(self) -> None:
        """Remember the previous key: an error before another key is set belongs to no key."""
        self._before = NO_KEY if self._context is None else self._context.active_key

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Record the key; the error propagates, with an explanation if a function lacks a method."""
        if not isinstance(error, Exception):
            return
        if self._context is not None and self._context.active_key not in (NO_KEY, self._before):
            text = self._context.shown(self._context.active_key)
            self._key = text if len(text) <= _MOST_OF_A_KEY else f"{text[:_MOST_OF_A_KEY]}..."
        if isinstance(error, AttributeError):
            explain_missing_method(error)
