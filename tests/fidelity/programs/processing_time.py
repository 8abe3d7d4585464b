"""Windows by the clock, over input that comes slowly. What is due behind the last element never fires."""

from pyflink.common import Time, Types
from pyflink.datastream.functions import ProcessWindowFunction
from pyflink.datastream.window import (
    CountTrigger,
    ProcessingTimeSessionWindows,
    ProcessingTimeTrigger,
    PurgingTrigger,
    SlidingProcessingTimeWindows,
    TumblingProcessingTimeWindows,
)

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
PAIRS = [("a", 1), ("a", 2), ("b", 3), ("a", 4), ("b", 5)]
TEXT = Types.STRING()


class Pause:
    """A pause in front of each element, longer than anything waits; a long one in front of all, for workers to start."""

    def __call__(self, value):
        import time

        time.sleep(3 if value[1] == 1 else 0.4)
        return value


def _paced(env):
    slow = env.from_collection(PAIRS, PAIR).rebalance().map(Pause(), PAIR)
    return slow.key_by(lambda value: value[0], TEXT)


class Contents(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield f"{key} {[element[1] for element in elements]}"


def sessions(env):
    return _paced(env).window(ProcessingTimeSessionWindows.with_gap(Time.milliseconds(80))).process(Contents(), TEXT)


def tumbling_by_count(env):
    windows = _paced(env).window(TumblingProcessingTimeWindows.of(Time.days(1000)))
    return windows.trigger(PurgingTrigger.of(CountTrigger.of(2))).process(Contents(), TEXT)


def tumbling_that_never_end(env):
    return _paced(env).window(TumblingProcessingTimeWindows.of(Time.days(1000))).process(Contents(), TEXT)


def sliding_by_the_clock(env):
    windows = _paced(env).window(SlidingProcessingTimeWindows.of(Time.milliseconds(100), Time.milliseconds(100)))
    return windows.trigger(ProcessingTimeTrigger.create()).process(Contents(), TEXT)


PACED = ("sessions", "tumbling_by_count", "tumbling_that_never_end", "sliding_by_the_clock")
