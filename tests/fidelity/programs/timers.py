"""Timers by event time; side outputs of functions with timers."""

from pyflink.common import Duration, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedCoProcessFunction, KeyedProcessFunction, OutputTag, RuntimeContext, TimeDomain
from pyflink.datastream.state import ValueStateDescriptor

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
PAIRS = [("a", 100), ("b", 200), ("a", 300), ("c", 400), ("a", 2500), ("b", 2600), ("c", 5000)]
TEXT = Types.STRING()


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


def timed(env, elements=PAIRS):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(20))
    return env.from_collection(elements, PAIR).assign_timestamps_and_watermarks(
        strategy.with_timestamp_assigner(SecondField())
    )


class Echo(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1000)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1000)
        yield f"element {ctx.get_current_key()} {ctx.timestamp()}"

    def on_timer(self, timestamp, ctx):
        domain = ctx.time_domain() == TimeDomain.EVENT_TIME
        reached = ctx.timer_service().current_watermark() >= timestamp
        yield f"timer {ctx.get_current_key()} {timestamp} {ctx.timestamp()} {domain} {reached}"


def event_time(env):
    return timed(env).key_by(lambda value: value[0], TEXT).process(Echo(), TEXT)


class Deletes(KeyedProcessFunction):
    def process_element(self, value, ctx):
        service = ctx.timer_service()
        for later in (10, 20, 30):
            service.register_event_time_timer(value[1] + later)
        service.delete_event_time_timer(value[1] + 20)
        service.delete_event_time_timer(value[1] + 25)

    def on_timer(self, timestamp, ctx):
        yield f"{ctx.get_current_key()} {timestamp}"


def deleted(env):
    return timed(env).key_by(lambda value: value[0], TEXT).process(Deletes(), TEXT)


class Again(KeyedProcessFunction):
    """A timer that sets the next one, in state of its key."""

    def open(self, runtime_context: RuntimeContext):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value, ctx):
        if self.count.value() is None:
            self.count.update(0)
            ctx.timer_service().register_event_time_timer(1000)

    def on_timer(self, timestamp, ctx):
        count = self.count.value() + 1
        self.count.update(count)
        yield f"{ctx.get_current_key()} {timestamp} {count}"
        if count < 4:
            ctx.timer_service().register_event_time_timer(timestamp + 500)
        elif count == 4:
            ctx.timer_service().register_event_time_timer(timestamp - 5000)


def a_timer_sets_the_next(env):
    return timed(env).key_by(lambda value: value[0], TEXT).process(Again(), TEXT)


class Last(KeyedProcessFunction):
    """A key's last value, when none has come for a second."""

    def open(self, runtime_context: RuntimeContext):
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))

    def process_element(self, value, ctx):
        last = self.last.value()
        if last is None or value[1] > last:
            self.last.update(value[1])
        ctx.timer_service().register_event_time_timer(value[1] + 1000)

    def on_timer(self, timestamp, ctx):
        if self.last.value() == timestamp - 1000:
            yield ctx.get_current_key(), timestamp
            self.last.clear()


def last_of_a_key(env):
    return timed(env).key_by(lambda value: value[0], TEXT).process(Last(), PAIR)


LATE = OutputTag("later", Types.STRING())
COUNT = OutputTag("count", Types.LONG())


class Sides(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield value
        yield COUNT, value[1]
        ctx.timer_service().register_event_time_timer(value[1] + 7)

    def on_timer(self, timestamp, ctx):
        yield LATE, f"{ctx.get_current_key()} {timestamp}"


def side_outputs_of_timers(env):
    main = timed(env).key_by(lambda value: value[0], TEXT).process(Sides(), PAIR)
    return {"main": main, "later": main.get_side_output(LATE), "count": main.get_side_output(COUNT)}


class Times(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value[1] // 1000 * 1000 + 999)
        return []

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp


class Stamp(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield f"{value[0]} {value[1]} {ctx.timestamp()}"


def time_of_what_a_timer_emits(env):
    fired = timed(env).key_by(lambda value: value[0], TEXT).process(Times(), PAIR)
    return fired.key_by(lambda value: value[0], TEXT).process(Stamp(), TEXT)


class NoTime(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield f"{value[0]} {ctx.timestamp()} {ctx.timer_service().current_watermark() < 0}"


def no_timestamps(env):
    return env.from_collection(PAIRS, PAIR).key_by(lambda value: value[0], TEXT).process(NoTime(), TEXT)


class Both(KeyedCoProcessFunction):
    """Payments against orders: a timer tells what has no partner."""

    def open(self, runtime_context: RuntimeContext):
        self.order = runtime_context.get_state(ValueStateDescriptor("order", Types.LONG()))
        self.payment = runtime_context.get_state(ValueStateDescriptor("payment", Types.LONG()))

    def process_element1(self, value, ctx):
        self.order.update(value[1])
        ctx.timer_service().register_event_time_timer(10_000)

    def process_element2(self, value, ctx):
        self.payment.update(value[1])
        ctx.timer_service().register_event_time_timer(10_000)

    def on_timer(self, timestamp, ctx):
        yield f"{ctx.get_current_key()} {timestamp} {self.order.value()} {self.payment.value()}"
        self.order.clear()


def co_process_with_timers(env):
    orders = timed(env, [("a", 100), ("b", 200), ("c", 300)])
    payments = timed(env, [("b", 900), ("c", 800), ("d", 700)])
    connected = orders.connect(payments).key_by(lambda value: value[0], lambda value: value[0], TEXT)
    return connected.process(Both(), TEXT)


BATCH = ("event_time", "a_timer_sets_the_next")
