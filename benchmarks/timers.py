"""What timers and windows cost in a subtask, without Spark, and how much memory many timers take.

    python benchmarks/timers.py [--timers N] [--elements N] [--backends NAME ...]

Timers: so many are registered by event time, one per key, in a random order, in epochs of 50,000; then watermarks fire them,
50,000 an epoch, and their order is checked. Windows: elements of 1,000 keys go into tumbling and sliding windows that count
them, in epochs of 20,000, each of which ends with a watermark that closes windows. Times are processor time of the process;
`peak` is the resident memory of a process that does nothing else.
"""

import argparse
import multiprocessing
import random
import resource
import time

EPOCH = 50_000
WINDOW_EPOCH = 20_000
BACKENDS = ("hashmap", "rocksdb")


def chain_of(kind, function, backend):
    """Return an open harness for a function behind key_by(), and what makes a batch of elements (key, time)."""
    from pystate.common import Types
    from pystate.testing import KeyedOneInputOperatorTestHarness

    pair = Types.TUPLE([Types.LONG(), Types.LONG()])
    types = {"key_type": Types.LONG(), "input_type": pair, "output_type": pair}
    harness = KeyedOneInputOperatorTestHarness(function, lambda value: value[0], kind=kind, state_backend=backend, **types)
    harness.open()
    return harness


def timers(backend, count, answers):
    """Register and fire timers; answer with seconds for both, and the peak."""
    from pystate.api.job_graph import OperatorKind
    from pystate.datastream import KeyedProcessFunction

    class Alarm(KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(value[1])

        def on_timer(self, timestamp, ctx):
            yield ctx.get_current_key(), timestamp

    harness = chain_of(OperatorKind.PROCESS, Alarm(), backend)
    times = list(range(count))
    random.Random(1).shuffle(times)
    registering = firing = 0.0
    for start in range(0, count, EPOCH):
        elements = [(start + number, at) for number, at in enumerate(times[start : start + EPOCH])]
        began = time.process_time()
        harness.process_elements(elements)
        harness.end_epoch()
        registering += time.process_time() - began
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
    assert expected == count
    harness.close()
    answers.put((registering, firing, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))


def windows(backend, count, assigner, answers):
    """Count elements in windows; answer with seconds, how many results there were, and the entries that are left."""
    from pystate.api.functions import AggregateFunction
    from pystate.api.job_graph import OperatorKind
    from pystate.api.window.functions import WindowFunction
    from pystate.api.window.operation import WindowOperation
    from pystate.common import Types

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
    answer = answers.get()
    process.join()
    return answer


def main():
    from pystate.api.window.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--timers", type=int, default=1_000_000)
    parser.add_argument("--elements", type=int, default=400_000)
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, default=list(BACKENDS))
    arguments = parser.parse_args()
    print("| backend | timers | register, us each | fire, us each | peak, MiB |\n|---|---|---|---|---|")
    for backend in arguments.backends:
        registering, firing, peak = alone(timers, backend, arguments.timers)
        each = 1e6 / arguments.timers
        print(
            f"| {backend} | {arguments.timers:,} | {registering * each:.1f} | {firing * each:.1f} | {peak >> 10:,} |",
            flush=True,
        )
    print("\n| backend | windows | elements/s | results | entries left |\n|---|---|---|---|---|")
    shapes = {"tumbling 5 s": TumblingEventTimeWindows(5_000), "sliding 5 s by 1 s": SlidingEventTimeWindows(5_000, 1_000)}
    for backend in arguments.backends:
        for name, assigner in shapes.items():
            spent, results, left = alone(windows, backend, arguments.elements, assigner)
            print(f"| {backend} | {name} | {arguments.elements / spent:,.0f} | {results:,} | {left} |", flush=True)


if __name__ == "__main__":
    main()
