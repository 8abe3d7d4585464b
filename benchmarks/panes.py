"""What sliding windows would win if they shared panes: a prototype beside the plain way, in a subtask without Spark.

    python benchmarks/panes.py

A count of 1,000 keys' elements in windows of size n slides, by `aggregate` under the assigner's own trigger and
without lateness. The prototype keeps an accumulator per pane and a timer per key and earliest window. Times are
processor time of the process; bytes are those of a canonical snapshot in the middle of the stream. Both must give the
same results and leave nothing. Why it is a prototype: docs/design/010-panes-of-sliding-windows.md.
"""

import random
import time

SLIDE, KEYS = 1_000, 1_000
SHAPES = ((5, 1, 50_000), (5, 10, 50_000), (60, 1, 15_000))
EPOCH = 20_000


def with_panes(plain, size, slide):
    """Return a window operator that shares panes."""
    from pystate.api.window.windows import TimeWindow

    class Panes(plain):
        def process_element(self, value):
            at = self._time.timestamp
            start = at - at % slide
            self._contents.select(TimeWindow(start, start + slide))
            self._contents.add(value, at)
            first = start + slide - size
            while first + size - 1 <= self._time.watermark:
                first += slide
            self._timers.register_event_time_timer((first, first + size), first + size - 1)

        def _on_timer(self, timestamp, namespace, *, by_event_time):
            start, end = namespace
            merge = self._operation.aggregate_function.merge
            result, goes_on = None, False
            for pane in range(start, end, slide):
                self._contents.select(TimeWindow(pane, pane + slide))
                found = self._contents.fire(None)  # the accumulator of a count is its result
                if found is not None:
                    result = found[0] if result is None else merge(result, found[0])
                    goes_on = goes_on or pane > start
            if result is not None:
                self._emit(TimeWindow(start, end), [result])
            if goes_on:
                self._timers.register_event_time_timer((start + slide, end + slide), end + slide - 1)
            self._contents.select(TimeWindow(start, start + slide))
            self._contents.clear()

    return Panes


def run(panes, backend, slides, per_pane, elements):
    """Return elements/s, bytes of a snapshot, and (number, checksum) of the results."""
    from pystate.api.functions import AggregateFunction
    from pystate.api.window.assigners import SlidingEventTimeWindows
    from pystate.api.window.functions import WindowFunction
    from pystate.common import Types
    from pystate.slot.operators import operator
    from pystate.slot.operators.windowing.aligned_windows import is_aligned
    from pystate.slot.operators.windowing.window_operator import WindowOperator
    from pystate.testing import WindowOperatorTestHarness

    class Count(AggregateFunction):
        def create_accumulator(self):
            return 0

        def add(self, value, accumulator):
            return accumulator + 1

        def get_result(self, accumulator):
            return accumulator

        def merge(self, acc_a, acc_b):
            return acc_a + acc_b

    class WithKey(WindowFunction):
        def apply(self, key, window, inputs):
            return [(key, inputs[0])]

    operator.WindowOperator = with_panes(WindowOperator, slides * SLIDE, SLIDE) if panes else WindowOperator
    operator.is_aligned = (lambda operation: False) if panes else is_aligned
    pair, chosen = Types.TUPLE([Types.LONG(), Types.LONG()]), random.Random(1)
    harness = WindowOperatorTestHarness(
        SlidingEventTimeWindows(slides * SLIDE, SLIDE),
        lambda value: value[0],
        Types.LONG(),
        aggregate_function=Count(),
        accumulator_type=Types.LONG(),
        window_function=WithKey(),
        input_type=pair,
        output_type=pair,
        state_backend=backend,
    )
    harness.open()
    spent, results = 0.0, [0, 0]

    def take():
        found = harness.extract_output()
        results[0] += len(found)
        results[1] += sum(count * (key + 1) for key, count in found)
        harness.clear_output()

    for start in range(0, elements // (KEYS * per_pane) * SLIDE, SLIDE):
        stamps = sorted(start + chosen.randrange(SLIDE) for _ in range(KEYS * per_pane))
        batch = [(chosen.randrange(KEYS), at) for at in stamps]
        began = time.process_time()
        for first in range(0, len(batch), EPOCH):
            harness.process_elements(batch[first : first + EPOCH], stamps[first : first + EPOCH])
        harness.process_watermark(start + SLIDE - 1)
        harness.end_epoch()
        spent += time.process_time() - began
        take()
    size = harness.snapshot(1).state_size
    harness.process_watermark((1 << 63) - 1)
    harness.end_epoch()
    take()
    assert harness.num_keyed_state_entries() == 0
    harness.close()
    return elements / spent, size, results


def main():
    print("| backend | size / slide | per key and slide | plain, elements/s | panes, elements/s | plain, bytes | panes |")
    print("|---|---|---|---|---|---|---|")
    for backend in ("hashmap", "rocksdb"):
        for slides, per_pane, elements in SHAPES:
            plain, panes = (run(panes, backend, slides, per_pane, elements) for panes in (False, True))
            assert plain[2] == panes[2]
            figures = f"{plain[0]:,.0f} | {panes[0]:,.0f} | {plain[1]:,} | {panes[1]:,}"
            print(f"| {backend} | {slides} | {per_pane} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
