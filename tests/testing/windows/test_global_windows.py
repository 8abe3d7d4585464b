"""The global window of a key, with triggers of event time."""

from __future__ import annotations

import pytest

from pystate.common.errors import RecordError
from pystate.core.api.window.assigners import GlobalWindows
from pystate.core.api.window.triggers import ContinuousEventTimeTrigger, EventTimeTrigger, PurgingTrigger
from pystate.core.api.window.windows import MAX_TIMESTAMP
from tests.testing.windows.test_windows import BACKENDS, entries, ms, windows


@BACKENDS
def test_the_global_window_fires_by_event_time_where_its_trigger_does(backend: str) -> None:
    trigger = ContinuousEventTimeTrigger.of(ms(4))
    with windows(GlobalWindows.create(), trigger=trigger, state_backend=backend) as harness:
        harness.process_elements([("a", 1), ("b", 2)], [1, 6])
        harness.process_watermark(4)
        assert harness.extract_output() == [("a", None, [1])]
        harness.end_epoch()
        harness.process_element(("a", 3), 5)
        harness.process_watermark(8)
        assert sorted(harness.extract_output()[1:]) == [("a", None, [1, 3]), ("b", None, [2])]
        harness.clear_output()
        harness.process_watermark(MAX_TIMESTAMP)  # once, not at each multiple up to it
        assert sorted(harness.extract_output()) == [("a", None, [1, 3]), ("b", None, [2])]
        assert harness.num_event_time_timers() == 0
    with windows(GlobalWindows.create(), trigger=PurgingTrigger.of(trigger), state_backend=backend) as harness:
        harness.process_elements([("a", 1), ("a", 2), ("a", 6)], [1, 2, 6])
        harness.process_watermark(9)
        harness.process_element(("a", 10), 10)
        harness.process_watermark(MAX_TIMESTAMP)
        assert [numbers for _, _, numbers in harness.extract_output()] == [[1, 2, 6], [10]]
        assert entries(harness) == 0
    with windows(GlobalWindows.create(), trigger=EventTimeTrigger(), state_backend=backend) as harness:
        harness.process_elements([("a", 1), ("a", 2)], [1, 2])
        harness.process_watermark(1 << 62)
        assert harness.extract_output() == []
        harness.process_watermark(MAX_TIMESTAMP)
        assert harness.extract_output() == [("a", None, [1, 2])]


def test_a_trigger_at_multiples_of_event_time_needs_the_times_of_elements() -> None:
    with (
        windows(GlobalWindows.create(), trigger=ContinuousEventTimeTrigger.of(ms(4))) as harness,
        pytest.raises(RecordError, match="without a timestamp"),
    ):
        harness.process_element(("a", 1))
