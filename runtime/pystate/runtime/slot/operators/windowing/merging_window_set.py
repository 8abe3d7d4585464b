"""The windows of a key that may merge (Flink's MergingWindowSet).

Contents don't move with each merge: a window of the program stands for the window under which its contents are kept, the
*state window*, which is one of those that went into it. The pairs are state of their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from pystate.common.errors import StateError
from pystate.core.api.state import MapState, MapStateDescriptor
from pystate.core.api.window.assigners import MergingWindowAssigner
from pystate.core.snapshot.reading.window_states import MERGING_WINDOW_SET
from pystate.runtime.slot.operators.windowing.window_namespaces import WindowNamespaces


class MergeFunction(Protocol):
    """What is done when windows merge."""

    def __call__(self, result: Any, merged: list[Any], state_window: Any, merged_state_windows: list[Any], /) -> None:
        """Merge triggers, timers and contents.

        Args:
            result: The window that comes out.
            merged: The windows that were there and are in it; the one that is new isn't among them.
            state_window: Where the contents of the result are kept.
            merged_state_windows: Where contents are that have to go there.
        """


class _Merges(MergingWindowAssigner.MergeCallback):
    """Takes down what an assigner merges."""

    def __init__(self) -> None:
        self.found: list[tuple[Any, list[Any]]] = []

    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        """Take a merge down."""
        self.found.append((merge_result, list(to_be_merged)))


class MergingWindowSet:
    """The windows of one key while an element is processed, or a timer fires.

    Args:
        assigner: Says which windows merge.
        pairs: The state, scoped to the key.
        namespaces: How windows are written.
    """

    def __init__(self, assigner: MergingWindowAssigner, pairs: MapState[Any, Any], namespaces: WindowNamespaces) -> None:
        self._assigner = assigner
        self._pairs = pairs
        self._namespaces = namespaces
        self._stored = dict(pairs.items())
        self._state_windows = {namespaces.window(one): namespaces.window(other) for one, other in self._stored.items()}

    @staticmethod
    def descriptor(namespaces: WindowNamespaces) -> MapStateDescriptor:
        """Return what declares the state."""
        return MapStateDescriptor(MERGING_WINDOW_SET, namespaces.type_info, namespaces.type_info)

    def state_window(self, window: Any) -> Any:
        """Return under which window the contents are kept; None for a window that isn't in the set."""
        return self._state_windows.get(window)

    def retire_window(self, window: Any) -> None:
        """Take a window out of the set.

        Raises:
            StateError: It isn't there.
        """
        if self._state_windows.pop(window, None) is None:
            message = f"The window {window!r} isn't one of its key's windows."
            raise StateError(message)

    def add_window(self, new: Any, merge: MergeFunction) -> Any:
        """Take a window into the set, merged with those that are there as the assigner says.

        Returns:
            The window that it is part of then.
        """
        merges = _Merges()
        self._assigner.merge_windows([*self._state_windows, new], merges)
        result = new
        for merged_into, windows in merges.found:
            is_new = new in windows
            merged = [window for window in windows if window != new]
            if is_new:
                result = merged_into
                if new in self._state_windows:
                    merged.append(new)
            state_windows = [self._state_windows.pop(window) for window in merged if window in self._state_windows]
            if not state_windows:
                continue
            self._state_windows[merged_into] = state_windows[0]
            if merged != [merged_into]:  # else the new one lies in one that was there
                merge(merged_into, merged, state_windows[0], state_windows[1:])
        if result not in self._state_windows:
            self._state_windows[result] = result
        return result

    def persist(self) -> None:
        """Write to the state what has changed."""
        of = self._namespaces.of
        pairs = {of(window): of(state_window) for window, state_window in self._state_windows.items()}
        for window in self._stored.keys() - pairs.keys():
            self._pairs.remove(window)
        for window, state_window in pairs.items():
            if self._stored.get(window) != state_window:
                self._pairs.put(window, state_window)
        self._stored = pairs
