"""What sliding windows win by sharing panes: counts with them and without, in a subtask without Spark.

    python benchmarks/slots/panes.py [--rounds N]

`count()` of the elements of 1,000 keys in windows of size n slides, the same windows with panes and each with a count
of its own, in turn. Elements come in batches of up to 5,000; an epoch is as long as a slide. Times are processor time
of the process, the shortest of the rounds; bytes are those of the last canonical snapshot. *Each epoch* is a snapshot
after each, as with a barrier on every epoch. Both must give the same results and leave nothing.
"""

import argparse
import random
import time
from unittest import mock

SLIDE, KEYS = 1_000, 1_000
SHAPES = ((5, 1, 50_000), (5, 20, 200_000), (60, 1, 15_000), (60, 20, 100_000))
BATCH = 5_000


def run(panes, backend, slides, per_pane, elements, snapshots):
    """Return seconds an element, bytes of a snapshot, and (number, checksum) of the results."""
    from pystate.common import Types
    from pystate.core.api.aggregation import ElementCount
    from pystate.core.api.window.assigners import SlidingEventTimeWindows
    from pystate.core.api.window.window_functions import WindowFunction
    from pystate.runtime.slot.operators.windowing import keyed_windows_operator
    from pystate.testing import WindowOperatorTestHarness

    class WithKey(WindowFunction):
        def apply(self, key, window, inputs):
            return [(key, inputs[0])]

    pair, chosen = Types.TUPLE([Types.LONG(), Types.LONG()]), random.Random(1)
    operator = keyed_windows_operator
    with mock.patch.object(operator, "pane_state", operator.pane_state if panes else lambda *_: None):
        harness = WindowOperatorTestHarness(
            SlidingEventTimeWindows(slides * SLIDE, SLIDE),
            lambda value: value[0],
            Types.LONG(),
            aggregate_function=ElementCount(),
            accumulator_type=Types.LONG(),
            window_function=WithKey(),
            input_type=pair,
            output_type=pair,
            state_backend=backend,
        )
        harness.open()
    spent, size, results = 0.0, 0, [0, 0]

    def take():
        found = harness.extract_output()
        results[0] += len(found)
        results[1] += sum(count * (key + 1) for key, count in found)
        harness.clear_output()

    epochs = elements // (KEYS * per_pane)
    for number in range(epochs):
        start = number * SLIDE
        stamps = sorted(start + chosen.randrange(SLIDE) for _ in range(KEYS * per_pane))
        batch = [(chosen.randrange(KEYS), at) for at in stamps]
        began = time.process_time()
        for first in range(0, len(batch), BATCH):
            harness.process_elements(batch[first : first + BATCH], stamps[first : first + BATCH])
        harness.process_watermark(start + SLIDE - 1)
        harness.end_epoch()
        if snapshots or number == epochs - 1:
            size = harness.snapshot(1).state_size
        spent += time.process_time() - began
        take()
    harness.process_watermark((1 << 63) - 1)
    harness.end_epoch()
    take()
    assert harness.num_keyed_state_entries() == 0
    harness.close()
    return spent / elements, size, results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1)
    rounds = parser.parse_args().rounds
    print("| backend | snapshots | size / slide | per key and slide | alone, us | panes, us | alone, bytes | panes |")
    print("|---|---|---|---|---|---|---|---|")
    for snapshots in (False, True):
        for backend in ("hashmap", "rocksdb"):
            for shape in SHAPES:
                found = [[run(panes, backend, *shape, snapshots) for panes in (False, True)] for _ in range(rounds)]
                (_, alone, results), (_, shared, same) = found[0]
                assert results == same
                times = [min(each[way][0] for each in found) * 1e6 for way in (0, 1)]
                often = "each epoch" if snapshots else "one"
                figures = f"{times[0]:.2f} | {times[1]:.2f} | {alone:,} | {shared:,}"
                print(f"| {backend} | {often} | {shape[0]} | {shape[1]} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
