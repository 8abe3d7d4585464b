"""How late timers by the clock are on a stream that stands still, with their output delivered.

    python benchmarks/idle_timers.py --timers 20 --every 1700 --interval 500

A job of one source that gives one element and then stands still: each timer of the element's key sets the next one, and a
sink of `for_each_batch` notes when it gets the timer's row. The distance from a timer's time to that is printed, in
milliseconds and in intervals between epochs.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from pystate.common import Configuration, Types
from pystate.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pystate.datastream.connectors.file_system import FileSource


class Chain(KeyedProcessFunction):
    """Each timer registers the next one, `every_ms` after its own time."""

    def __init__(self, every_ms: int) -> None:
        self._every_ms = every_ms

    def process_element(self, value: Any, ctx: Any) -> None:
        timers = ctx.timer_service()
        timers.register_processing_time_timer(timers.current_processing_time() + self._every_ms)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        ctx.timer_service().register_processing_time_timer(timestamp + self._every_ms)
        yield timestamp


def measure(timers: int, every_ms: int, interval_ms: int, parallelism: int) -> list[float]:
    """Run the job; return how late each timer's row was in the sink, ms."""
    late: list[float] = []

    def take(frame: Any, _: int) -> None:
        rows = frame.collect()
        now = time.time() * 1000
        late.extend(now - row[0] for row in rows)

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "one.txt").write_text("x\n", "utf-8")
        configuration = Configuration()
        configuration.set_string("parallelism.default", str(parallelism))
        configuration.set_string("pystate.epoch.interval", f"{interval_ms} ms")
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        lines = env.from_source(FileSource(folder, monitor_interval_ms=interval_ms), source_name="lines")
        keyed = lines.key_by(lambda line: line, Types.STRING())
        keyed.process(Chain(every_ms), Types.LONG()).for_each_batch(take)
        client = env.execute_async("idle timers")
        while len(late) <= timers:
            if client.get_job_status().result().is_terminal:
                client.get_job_execution_result().result()  # raises its failure
            time.sleep(0.1)
        client.cancel().result()
    return late[1 : timers + 1]  # workers start before the first one


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--timers", type=int, default=20, help="how many are measured")
    parser.add_argument("--every", type=int, default=1_700, help="ms between a timer and the next")
    parser.add_argument("--interval", type=int, default=500, help="ms between two epochs")
    parser.add_argument("--parallelism", type=int, default=2)
    options = parser.parse_args()
    late = sorted(measure(options.timers, options.every, options.interval, options.parallelism))
    within = sum(one <= 1.2 * options.interval for one in late)
    print(
        f"{len(late)} timers, epochs of {options.interval} ms: {late[0]:.0f} to {late[-1]:.0f} ms, "
        f"median {statistics.median(late):.0f} ms ({statistics.median(late) / options.interval:.2f} epochs); "
        f"{within} of {len(late)} within 1.2 epochs"
    )


if __name__ == "__main__":
    main()
