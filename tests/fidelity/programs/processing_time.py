"""Timers and processing-time windows, over input that comes slowly. What is due behind the last element never fires."""

from pyflink.common import Time, Types
from pyflink.datastream import KeyedProcessFunction, RuntimeContext, TimeDomain
from pyflink.datastream.functions import ProcessWindowFunction
from pyflink.datastream.state import ValueStateDescriptor
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


class Earlier(Contents):
    """Leaves out the last element: whether its window ends in front of the job is a matter of milliseconds."""

    def process(self, key, context, elements):
        if all(element[1] < 5 for element in elements):
            yield from super().process(key, context, elements)


class Soon(KeyedProcessFunction):
    """Each of the first three elements has a timer of its own that fires before the last one comes."""

    def open(self, runtime_context: RuntimeContext):
        self.fired = runtime_context.get_state(ValueStateDescriptor("fired", Types.LONG()))

    def process_element(self, value, ctx):
        service = ctx.timer_service()
        now = service.current_processing_time()
        service.register_processing_time_timer(now + 3_600_000)
        if value[1] <= 3:
            service.register_processing_time_timer(now + 50 + value[1])
            service.register_processing_time_timer(now + 60 + value[1])
            service.delete_processing_time_timer(now + 60 + value[1])

    def on_timer(self, timestamp, ctx):
        self.fired.update((self.fired.value() or 0) + 1)
        is_due = timestamp <= ctx.timer_service().current_processing_time()
        is_of_the_clock = ctx.time_domain() == TimeDomain.PROCESSING_TIME
        yield f"{ctx.get_current_key()} {self.fired.value()} {is_of_the_clock} {is_due}"


def timers(env):
    return _paced(env).process(Soon(), TEXT)


def sessions(env):
    return _paced(env).window(ProcessingTimeSessionWindows.with_gap(Time.milliseconds(80))).process(Earlier(), TEXT)


def tumbling_by_count(env):
    windows = _paced(env).window(TumblingProcessingTimeWindows.of(Time.days(1000)))
    return windows.trigger(PurgingTrigger.of(CountTrigger.of(2))).process(Contents(), TEXT)


def tumbling_that_never_end(env):
    return _paced(env).window(TumblingProcessingTimeWindows.of(Time.days(1000))).process(Contents(), TEXT)


def sliding_by_the_clock(env):
    windows = _paced(env).window(SlidingProcessingTimeWindows.of(Time.milliseconds(100), Time.milliseconds(100)))
    return windows.trigger(ProcessingTimeTrigger.create()).process(Earlier(), TEXT)


PACED = ("timers", "sessions", "tumbling_by_count", "tumbling_that_never_end", "sliding_by_the_clock")
