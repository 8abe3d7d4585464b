"""The names of the states that windows keep, which are part of the snapshots' format: see `docs/snapshot-format.md`."""

from __future__ import annotations

WINDOW_CONTENTS = "window-contents"
"""What a window holds, as in Flink."""

WINDOW_TIMERS_STATE = "_timer_state/event_window-timers"
"""The timers of windows by event time."""

MERGING_WINDOW_SET = "merging-window-set"
"""Of windows that merge: the windows of a key, and under which windows their contents are, as in Flink."""
