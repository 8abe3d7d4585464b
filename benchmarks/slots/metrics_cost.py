"""What measuring costs: a subtask that counts by key, with and without the metrics of its task.

    python benchmarks/slots/metrics_cost.py [--rounds N]

The job and the figures are those of `slot_throughput.py`, hot keys on hashmap: processor time of the calling thread, sides
in turn, the median of the rounds, and each side over the bare one of the same round. *bare*: batches go straight to the
function, nothing is counted. *task*: as a slot runs it. *task, looked at*: the same while another thread collects all
metrics every 10 ms, a hundred times as often as a slot does. *function*: the function counts, marks a meter and fills a
distribution for every record. Last, what one look at all metrics costs, which a slot takes once a second.
"""

import argparse
import os
import platform
import random
import statistics
import tempfile
import threading
import time

from slot_throughput import BATCH, BATCHES, Count, SlotSide, arrow_batches

from pystate.common import Types
from pystate.core.state.keys.keys import KeyCodec


class BareSide(SlotSide):
    def epoch(self, batches):
        operator = self.operator
        for batch in batches:
            operator._process[0](batch)  # noqa: SLF001 - what stood here before anything was counted
            operator.records_in += batch.num_rows
        for buffer in operator._buffers.values():  # noqa: SLF001
            buffer.flush()
        operator.finish_epoch()


class WatchedSide(SlotSide):
    def epoch(self, batches):
        ended = threading.Event()

        def look():
            while not ended.wait(0.01):
                self.operator.metrics.collect(time.monotonic())

        watcher = threading.Thread(target=look, daemon=True)
        watcher.start()
        super().epoch(batches)
        ended.set()
        watcher.join()


class Measured(Count):
    def open(self, runtime_context):
        super().open(runtime_context)
        group = runtime_context.get_metrics_group()
        self.seen, self.rate, self.lengths = group.counter("seen"), group.meter("rate"), group.distribution("length")

    def process_element(self, value, ctx):
        self.seen.inc()
        self.rate.mark_event()
        self.lengths.update(len(value))
        return super().process_element(value, ctx)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=30)
    arguments = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}")
    words = [f"word-{number:08d}" for number in range(1_000)]
    count = BATCH * BATCHES
    batches = list(arrow_batches(random.Random(2).choices(words, k=count), KeyCodec(Types.STRING())))
    with tempfile.TemporaryDirectory() as folder:
        sides = {
            "bare": BareSide("hashmap", folder),
            "task": SlotSide("hashmap", folder),
            "task, looked at": WatchedSide("hashmap", folder),
            "function": SlotSide("hashmap", folder, Measured()),
        }
        spent = {name: [] for name in sides}
        for number in range(arguments.rounds + 1):
            order = list(sides)
            random.Random(number).shuffle(order)
            for name in order:
                started = time.thread_time()
                sides[name].epoch(batches)
                if number:  # the first one fills the state
                    spent[name].append(time.thread_time() - started)
        started, looks = time.thread_time(), 1_000
        for number in range(looks):
            sides["function"].operator.metrics.collect(number)
        look_us = (time.thread_time() - started) / looks * 1e6
        for side in sides.values():
            side.close()
    print("\n| side | microseconds a record, median | over bare, median of the rounds |")
    print("|---|---|---|")
    for name, seconds in spent.items():
        over = statistics.median(one / bare for one, bare in zip(seconds, spent["bare"], strict=True)) - 1
        print(f"| {name} | {statistics.median(seconds) / count * 1e6:.3f} | {over:+.1%} |")
    print(f"\none look at all metrics: {look_us:.0f} microseconds")


if __name__ == "__main__":
    main()
