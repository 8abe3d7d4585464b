"""The names of the states of window operators, which are part of the snapshot format: see `docs/snapshot-format.md`."""

from __future__ import annotations

WINDOW_CONTENTS = "window-contents"
"""The name of the state with the contents of windows, as in Flink."""

WINDOW_TIMERS_STATE = "_timer_state/event_window-timers"
"""The timers of windows by event time."""

MERGING_WINDOW_SET = "merging-window-set"
"""Of windows that merge: the windows of a key, and under which windows their contents are, as in Flink."""
