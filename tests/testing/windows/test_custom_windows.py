"""Assigners of the program's own, with windows of their own, under the public harness."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from pystate.common.serializer import TypeSerializer
from pystate.core.api.window.assigners import MergingWindowAssigner, WindowAssigner
from pystate.core.api.window.triggers import EventTimeTrigger, Trigger
from pystate.core.api.window.window_functions import WindowFunction
from pystate.core.api.window.windows import Window
from tests.testing.windows.test_windows import BACKENDS, entries, windows


class Letters(Window):
    """A window of elements whose numbers have the same number of digits; its end is that of 100."""

    def __init__(self, digits: int) -> None:
        self.digits = digits

    def max_timestamp(self) -> int:
        return 99

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Letters) and self.digits == other.digits

    def __hash__(self) -> int:
        return self.digits


class LettersSerializer(TypeSerializer[Letters]):
    def serialize(self, element: Letters, stream: Any) -> None:
        stream.write(bytes([element.digits]))

    def deserialize(self, stream: Any) -> Letters:
        return Letters(stream.read(1)[0])


class ByLetters(MergingWindowAssigner):
    """Windows of an own kind; that of 3 digits takes that of 2 in."""

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[Letters]:
        assert context.get_current_processing_time() == 0
        assert context.get_runtime_context().get_index_of_this_subtask() == 0
        return [Letters(len(str(element[1])))]

    def merge_windows(self, windows: Iterable[Letters], callback: MergingWindowAssigner.MergeCallback) -> None:
        large = [window for window in windows if window.digits > 1]
        if len(large) > 1:
            callback.merge(large, Letters(3))

    def get_default_trigger(self, env: Any) -> Trigger:
        return EventTimeTrigger()

    def get_window_serializer(self) -> TypeSerializer[Letters]:
        return LettersSerializer()

    def is_event_time(self) -> bool:
        return True


@BACKENDS
def test_an_assigner_of_the_programs_own_with_windows_of_its_own(backend: str) -> None:
    class ByDigits(WindowFunction):
        def apply(self, key: Any, window: Letters, inputs: Iterable[Any]) -> Iterator[Any]:
            yield key, window.digits, sorted(number for _, number in inputs)

    with windows(ByLetters(), window_function=ByDigits(), state_backend=backend) as harness:
        harness.process_elements([("a", 1), ("a", 22), ("a", 5), ("a", 33)], [1, 1, 1, 1])
        harness.end_epoch()
        harness.process_elements([("a", 444), ("a", 66)], [1, 1])
        harness.process_watermark(99)
        assert sorted(harness.extract_output()) == [("a", 1, [1, 5]), ("a", 3, [22, 33, 66, 444])]
        assert entries(harness) == 0
