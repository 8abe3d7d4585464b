"""What timers and windows cost in a subtask, without Spark, and how much memory many timers take.

    python benchmarks/slots/timers.py [--timers N] [--elements N] [--backends NAME ...] [--parts NAME ...]
        [--slot-memory SIZE]

Timers: so many are registered by event time, one per key, in no order, in epochs of 50,000; then watermarks fire them,
50,000 an epoch, and their order is checked. `resident` is the memory of the process after each fifth of them.
Deleted: so many are registered and deleted, in epochs of 50,000, with one far behind them that then fires, and one that is
registered and fires thereafter; `registered again` fires one timer in each of 20 epochs after that.
At once: one watermark fires all of them, in one epoch, and then 20 epochs fire one timer each.
Windows: elements of 1,000 keys go into tumbling and sliding windows that count them, in epochs of 20,000, each of which ends
with a watermark that closes windows. Times are processor time of the process; `peak` is the resident memory of a process
that does nothing else.
"""

import argparse
import math
import multiprocessing
import os
import queue
import random
import resource
import time

EPOCH = 50_000
WINDOW_EPOCH = 20_000
BACKENDS = ("hashmap", "rocksdb")
PARTS = ("timers", "deleted", "at-once", "windows")


def chain_of(kind, function, backend, memory=None):
    """Return an open harness for a function after key_by(), and what makes a batch of elements (key, time)."""
    from pystate.common import Types
    from pystate.testing import KeyedOneInputOperatorTestHarness

    pair = Types.TUPLE([Types.LONG(), Types.LONG()])
    types = {"key_type": Types.LONG(), "input_type": pair, "output_type": pair}
    if memory is not None:
        types["job_parameters"] = {"state.backend.rocksdb.memory.fixed-per-slot": memory}
    harness = KeyedOneInputOperatorTestHarness(function, lambda value: value[0], kind=kind, state_backend=backend, **types)
    harness.open()
    return harness


def alarms(backend, memory=None):
    """Return an open harness for (key, time): a time registers a timer, a negative one deletes that of its amount."""
    from pystate.core.api.operator_kind import OperatorKind
    from pystate.datastream import KeyedProcessFunction

    class Alarm(KeyedProcessFunction):
        def process_element(self, value, ctx):
            timers = ctx.timer_service()
            if value[1] >= 0:
                timers.register_event_time_timer(value[1])
            else:
                timers.delete_event_time_timer(-value[1])

        def on_timer(self, timestamp, ctx):
            yield ctx.get_current_key(), timestamp

    return chain_of(OperatorKind.PROCESS, Alarm(), backend, memory)


def scattered(count):
    """Return a function from 0 .. count - 1 to the same numbers in another order, which takes no memory."""
    step = next(number for number in range(int(count * 0.618) | 1, 2 * count + 3) if math.gcd(number, count) == 1)
    return lambda number: number * step % count


def resident_mib():
    """Return the resident memory of this process."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


def fed(harness, elements):
    """Process elements in epochs; return the seconds."""
    spent, pending = 0.0, []

    def process():
        began = time.process_time()
        harness.process_elements(pending)
        harness.end_epoch()
        pending.clear()
        return time.process_time() - began

    for element in elements:
        pending.append(element)
        if len(pending) == EPOCH:
            spent += process()
    return spent + process() if pending else spent


def timers(backend, count, memory, answers):
    """Register and fire timers; answer with seconds for both, the memory on the way, and the peak."""
    harness = alarms(backend, memory)
    time_of = scattered(count)
    registering = firing = 0.0
    resident = []
    fifth = max(EPOCH, count // 5)
    for start in range(0, count, fifth):
        registering += fed(harness, ((number, time_of(number)) for number in range(start, min(start + fifth, count))))
        resident.append(resident_mib())
    expected = 0
    for end in range(EPOCH, count + EPOCH, EPOCH):
        began = time.process_time()
        harness.process_watermark(end - 1)
        harness.end_epoch()
        firing += time.process_time() - began
        for _, at in harness.extract_output():
            assert at == expected
            expected += 1
        harness.clear_output()
        if end % fifth == 0:
            resident.append(resident_mib())
    assert expected == count
    harness.close()
    answers.put((registering, firing, resident, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))


def fire_one(harness, at):
    """Fire one timer with a watermark; return the seconds."""
    began = time.process_time()
    harness.process_watermark(at)
    harness.end_epoch()
    spent = time.process_time() - began
    assert [time for _, time in harness.extract_output()] == [at]
    harness.clear_output()
    return spent


def registered_again(harness, at):
    """Register and fire one timer after another, each of a key of its own; return the median of the seconds."""
    spent = []
    for number in range(20):
        harness.process_element((number, at + number))
        harness.end_epoch()
        spent.append(fire_one(harness, at + number))
    return sorted(spent)[10]


def deleted(backend, count, answers):
    """Register timers and delete them again; answer with seconds: for both, and to fire one that is left, and others."""
    harness = alarms(backend)
    time_of = scattered(count)
    fed(harness, [(-1, count + 1)])
    registering = fed(harness, ((number, time_of(number) + 1) for number in range(count)))
    deleting = fed(harness, ((number, -time_of(number) - 1) for number in range(count)))
    first = fire_one(harness, count + 1)
    again = registered_again(harness, count + 10)
    harness.close()
    answers.put((registering, deleting, first, again))


def at_once(backend, count, answers):
    """Fire all timers in one epoch; answer with seconds: for that, and to fire others; and the peak."""
    harness = alarms(backend)
    time_of = scattered(count)
    fed(harness, ((number, time_of(number)) for number in range(count)))
    began = time.process_time()
    harness.process_watermark(count)
    harness.end_epoch()
    firing = time.process_time() - began
    assert len(harness.extract_output()) == count
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    harness.clear_output()
    again = registered_again(harness, count + 10)
    harness.close()
    answers.put((firing, again, peak))


def windows(backend, count, assigner, answers):
    """Count elements in windows; answer with seconds, how many results there were, and the entries that are left."""
    from pystate.common import Types
    from pystate.core.api.functions import AggregateFunction
    from pystate.core.api.operator_kind import OperatorKind
    from pystate.core.api.window.window_functions import WindowFunction
    from pystate.core.api.window.window_operation import WindowOperation

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

    operation = WindowOperation(assigner, assigner.get_default_trigger(None), aggregate_function=Count())
    operation.accumulator_type, operation.window_function = Types.LONG(), WithKey()
    harness = chain_of(OperatorKind.WINDOW, operation, backend)
    chosen, spent, results = random.Random(1), 0.0, 0
    for start in range(0, count, WINDOW_EPOCH):
        stamps = range(start, min(start + WINDOW_EPOCH, count))
        elements = [(chosen.randrange(1_000), at) for at in stamps]
        began = time.process_time()
        harness.process_elements(elements, stamps)
        harness.process_watermark(stamps[-1])
        harness.end_epoch()
        spent += time.process_time() - began
        results += len(harness.extract_output())
        harness.clear_output()
    harness.process_watermark((1 << 63) - 1)
    harness.end_epoch()
    answers.put((spent, results, harness.num_keyed_state_entries()))
    harness.close()


def alone(function, *arguments):
    """Run a measurement in a process of its own, and return its answer."""
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    process = context.Process(target=function, args=(*arguments, answers))
    process.start()
    while True:
        try:
            answer = answers.get(timeout=1)
        except queue.Empty:
            if process.is_alive():
                continue
            raise SystemExit(1) from None  # it has reported why
        process.join()
        return answer


def main():
    from pystate.core.api.window.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--timers", type=int, default=1_000_000)
    parser.add_argument("--elements", type=int, default=400_000)
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, default=list(BACKENDS))
    parser.add_argument("--slot-memory", help="of RocksDB, for the part timers, as 64mb; default: the option's")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    arguments = parser.parse_args()
    parts, count = arguments.parts, arguments.timers
    each = 1e6 / count
    if "timers" in parts:
        print(
            "| backend | timers | register, us each | fire, us each | peak, MiB | resident, MiB |\n|---|---|---|---|---|---|"
        )
        for backend in arguments.backends:
            registering, firing, resident, peak = alone(timers, backend, count, arguments.slot_memory)
            figures = f"{registering * each:.1f} | {firing * each:.1f} | {peak >> 10:,} | {' '.join(map(str, resident))}"
            print(f"| {backend} | {count:,} | {figures} |", flush=True)
    if "deleted" in parts:
        print("\n| backend | timers | register, us each | delete, us each | fire the one left, ms | registered again, ms |")
        print("|---|---|---|---|---|---|")
        for backend in arguments.backends:
            registering, deleting, first, again = alone(deleted, backend, count)
            figures = f"{registering * each:.1f} | {deleting * each:.1f} | {first * 1e3:.1f} | {again * 1e3:.2f}"
            print(f"| {backend} | {count:,} | {figures} |", flush=True)
    if "at-once" in parts:
        print("\n| backend | timers | fire at once, us each | registered again, ms | peak, MiB |\n|---|---|---|---|---|")
        for backend in arguments.backends:
            firing, again, peak = alone(at_once, backend, count)
            print(f"| {backend} | {count:,} | {firing * each:.1f} | {again * 1e3:.2f} | {peak >> 10:,} |", flush=True)
    if "windows" not in parts:
        return
    print("\n| backend | windows | elements/s | results | entries left |\n|---|---|---|---|---|")
    shapes = {"tumbling 5 s": TumblingEventTimeWindows(5_000), "sliding 5 s by 1 s": SlidingEventTimeWindows(5_000, 1_000)}
    for backend in arguments.backends:
        for name, assigner in shapes.items():
            spent, results, left = alone(windows, backend, arguments.elements, assigner)
            print(f"| {backend} | {name} | {arguments.elements / spent:,.0f} | {results:,} | {left} |", flush=True)


if __name__ == "__main__":
    main()
