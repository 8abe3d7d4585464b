"""Flink's sides of `benchmarks/windows.py`, in the Python of a PyFlink.

python windows_flink.py URL-OF-FOLDER KIND sql|thread BACKEND PARALLELISM [URL-OF-CHECKPOINTS]
"""

import sys
import time

from flink_tables import flink_tables
from processes import processors_s
from pyflink.common import Row, Time, Types
from pyflink.datastream import AggregateFunction, KeyedCoProcessFunction, KeyedProcessFunction
from pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor
from pyflink.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows

SIZE_S, SLIDE_S, JOINED_MS, WAIT_MS = 10, 2, 1_000, 10_000
ASSIGNERS = {
    "tumbling": TumblingEventTimeWindows.of(Time.seconds(SIZE_S)),
    "sliding": SlidingEventTimeWindows.of(Time.seconds(SIZE_S), Time.seconds(SLIDE_S)),
    "session": EventTimeSessionWindows.with_gap(Time.seconds(SIZE_S)),
}
TABLES = {
    "tumbling": "TUMBLE(TABLE rows_in, DESCRIPTOR(t), INTERVAL '10' SECOND)",
    "sliding": "HOP(TABLE rows_in, DESCRIPTOR(t), INTERVAL '2' SECOND, INTERVAL '10' SECOND)",
    "session": "SESSION(TABLE rows_in PARTITION BY k, DESCRIPTOR(t), INTERVAL '10' SECOND)",
}
PAIR = Types.ROW_NAMED(["k", "n"], [Types.STRING(), Types.LONG()])


class Count(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + 1

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return a + b


class CountUntilTimer(KeyedProcessFunction):
    """The function that `benchmarks/windows.py` has."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = self.count.value()
        if count is None:
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + WAIT_MS)
        self.count.update((count or 0) + 1)

    def on_timer(self, timestamp, ctx):
        yield self.count.value()
        self.count.clear()


class Joined(KeyedCoProcessFunction):
    """An interval join, which PyFlink's streams don't have: rows wait in maps by their time until none can match them."""

    def open(self, runtime_context):
        of = Types.LIST(Types.LONG())
        self.left = runtime_context.get_map_state(MapStateDescriptor("left", Types.LONG(), of))
        self.right = runtime_context.get_map_state(MapStateDescriptor("right", Types.LONG(), of))

    def process_element1(self, value, ctx):
        at = value[1]
        self.left.put(at, [*(self.left.get(at) or ()), at])
        ctx.timer_service().register_event_time_timer(at + JOINED_MS)
        for other in list(self.right.keys()):
            if at <= other <= at + JOINED_MS:
                yield from self.right.get(other)

    def process_element2(self, value, ctx):
        at = value[1]
        self.right.put(at, [*(self.right.get(at) or ()), at])
        ctx.timer_service().register_event_time_timer(at)
        for other in list(self.left.keys()):
            if at - JOINED_MS <= other <= at:
                yield from self.left.get(other)

    def on_timer(self, timestamp, ctx):
        self.left.remove(timestamp - JOINED_MS)
        self.right.remove(timestamp)


def by_sql(tables, kind):
    if kind == "joined":
        query = (
            "SELECT l.k, r.ms FROM rows_in l, rows_in r WHERE l.k = r.k AND r.t BETWEEN l.t AND l.t + INTERVAL '1' SECOND"
        )
    else:
        query = f"SELECT k, COUNT(*) FROM {TABLES[kind]} GROUP BY k, window_start, window_end"
    tables.execute_sql("INSERT INTO gone " + query).wait()


def by_functions(tables, kind):
    def keyed():
        rows = tables.to_data_stream(tables.from_path("rows_in"))
        return rows.key_by(lambda row: row[0], Types.STRING())

    if kind == "timers":
        counts = keyed().process(CountUntilTimer(), Types.LONG())
    elif kind == "joined":
        counts = keyed().connect(keyed()).process(Joined(), Types.LONG())
    else:
        counts = keyed().window(ASSIGNERS[kind]).aggregate(Count(), accumulator_type=Types.LONG(), output_type=Types.LONG())
    pairs = counts.map(lambda count: Row("", count), PAIR)
    tables.from_data_stream(pairs).execute_insert("gone").wait()


def main():
    folder, kind, way, backend, parallelism, *checkpoints = sys.argv[1:]
    settings = {"state.backend.type": backend, "parallelism.default": parallelism, "python.executable": sys.executable}
    if checkpoints:
        settings |= {"execution.checkpointing.interval": "500ms", "execution.checkpointing.dir": checkpoints[0]}
    if way != "sql":
        settings["python.execution-mode"] = way
    tables = flink_tables(settings)
    tables.execute_sql(
        "CREATE TABLE rows_in (k STRING, ms BIGINT, t AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR t AS t) "
        f"WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'csv')"
    )
    tables.execute_sql("CREATE TABLE gone (k STRING, n BIGINT) WITH ('connector' = 'blackhole')")
    used, started = processors_s(), time.perf_counter()
    (by_sql if way == "sql" else by_functions)(tables, kind)
    print("seconds", time.perf_counter() - started, processors_s() - used)


if __name__ == "__main__":
    main()
