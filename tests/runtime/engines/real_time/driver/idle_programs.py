"""A program one of whose two sources falls silent; its slots import it."""

from __future__ import annotations

import time

from pystate.common import Duration, Time, Types, WatermarkStrategy
from pystate.common.watermark_strategy import TimestampAssigner
from pystate.datastream.functions import ProcessWindowFunction, SourceFunction
from pystate.datastream.window import TumblingEventTimeWindows

SECOND = 1000


class Times(SourceFunction):
    """Gives 0 and each next half second until it is cancelled; where it is silent, 0 and nothing more."""

    def __init__(self, *, silent):
        self._silent = silent
        self._running = True

    def run(self, ctx):
        ctx.collect(0)
        at = 0
        while self._running:
            time.sleep(0.01)
            if not self._silent:
                at += SECOND // 2
                ctx.collect(at)

    def cancel(self):
        self._running = False


class _Itself(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value


class _Bounds(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield f"window {context.window().start} {len(list(elements))}"


def one_falls_silent(*, after_a_shuffle):
    """Return the program: windows of a second over a source that goes on and one that doesn't, with idleness.

    Args:
        after_a_shuffle: Whether times are assigned there, in place of right after the sources.
    """

    def program(environment):
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(_Itself())
        timed = []
        for name in ("going on", "silent"):
            source = environment.add_source(Times(silent=name == "silent"), name, Types.LONG())
            source = source.rebalance() if after_a_shuffle else source
            timed.append(source.assign_timestamps_and_watermarks(strategy.with_idleness(Duration.of_millis(300))))
        windows = timed[0].union(timed[1]).key_by(_one, Types.LONG()).window(TumblingEventTimeWindows.of(Time.seconds(1)))
        windows.process(_Bounds(), Types.STRING()).print()

    return program


def _one(value):
    return 1
