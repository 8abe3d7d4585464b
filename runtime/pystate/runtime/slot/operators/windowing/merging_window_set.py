"""The merging windows of a key (Flink's MergingWindowSet).

Contents don't move with each merge: a window of the program maps to the *state window* that holds its contents, which is one
of the windows merged into it. This mapping is stored in its own state.
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
    """The callback for merged windows."""

    def __call__(self, result: Any, merged: list[Any], state_window: Any, merged_state_windows: list[Any], /) -> None:
        """Merge triggers, timers and contents.

        Args:
            result: The merged window.
            merged: The existing windows that were merged into it, without the new one.
            state_window: The state window that keeps the contents of the result.
            merged_state_windows: The state windows whose contents must be moved there.
        """


class _Merges(MergingWindowAssigner.MergeCallback):
    """Records the merges of an assigner."""

    def __init__(self) -> None:
        self.found: list[tuple[Any, list[Any]]] = []

    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        """Record a merge."""
        self.found.append((merge_result, list(to_be_merged)))


class MergingWindowSet:
    """The windows of one key while an element is processed or a timer fires.

    Args:
        assigner: Decides which windows merge.
        pairs: The mapping state, scoped to the key.
        namespaces: Converts windows to namespaces.
    """

    def __init__(self, assigner: MergingWindowAssigner, pairs: MapState[Any, Any], namespaces: WindowNamespaces) -> None:
        self._assigner = assigner
        self._pairs = pairs
        self._namespaces = namespaces
        self._stored = dict(pairs.items())
        self._state_windows = {namespaces.window(one): namespaces.window(other) for one, other in self._stored.items()}

    @staticmethod
    def descriptor(namespaces: WindowNamespaces) -> MapStateDescriptor:
        """Return the descriptor of the mapping state."""
        return MapStateDescriptor(MERGING_WINDOW_SET, namespaces.type_info, namespaces.type_info)

    def state_window(self, window: Any) -> Any:
        """Return the state window of a window; None for a window that isn't in the set."""
        return self._state_windows.get(window)

    def retire_window(self, window: Any) -> None:
        """Remove a window from the set.

        Raises:
            StateError: The window isn't in the set.
        """
        if self._state_windows.pop(window, None) is None:
            message = f"The window {window!r} isn't one of its key's windows."
            raise StateError(message)

    def add_window(self, new: Any, merge: MergeFunction) -> Any:
        """Add a window to the set, merged with existing windows as the assigner decides.

        Returns:
            The window that contains it afterwards.
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
            if merged != [merged_into]:  # otherwise an existing window contains the new one
                merge(merged_into, merged, state_windows[0], state_windows[1:])
        if result not in self._state_windows:
            self._state_windows[result] = result
        return result

    def persist(self) -> None:
        """Write changes to the state."""
        of = self._namespaces.of
        pairs = {of(window): of(state_window) for window, state_window in self._state_windows.items()}
        for window in self._stored.keys() - pairs.keys():
            self._pairs.remove(window)
        for window, state_window in pairs.items():
            if self._stored.get(window) != state_window:
                self._pairs.put(window, state_window)
        self._stored = pairs
