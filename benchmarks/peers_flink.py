"""Flink's sides of `benchmarks/peers.py`, in the Python of a PyFlink.

python peers_flink.py URL-OF-FOLDER sql|thread|process BACKEND PARALLELISM
"""

import sys
import time

from flink_tables import flink_tables
from pyflink.common import Row, Types
from pyflink.datastream import KeyedProcessFunction
from pyflink.datastream.state import ValueStateDescriptor

OUTPUT = Types.ROW_NAMED(["key", "count", "total"], [Types.STRING(), Types.LONG(), Types.DOUBLE()])


class Totals(KeyedProcessFunction):
    """The function that `benchmarks/peers.py` has."""

    def open(self, runtime_context):
        self.totals = runtime_context.get_state(ValueStateDescriptor("totals", Types.TUPLE([Types.LONG(), Types.DOUBLE()])))

    def process_element(self, value, ctx):
        count, total = self.totals.value() or (0, 0.0)
        count, total = count + 1, total + value[1]
        self.totals.update((count, total))
        yield Row(value[0], count, total)


def main():
    folder, kind, backend, parallelism = sys.argv[1:]
    settings = {"state.backend.type": backend, "parallelism.default": parallelism, "python.executable": sys.executable}
    if kind != "sql":
        settings["python.execution-mode"] = kind
    tables = flink_tables(settings)
    tables.execute_sql(
        "CREATE TABLE rows_in (k STRING, number DOUBLE) "
        f"WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'csv')"
    )
    tables.execute_sql("CREATE TABLE gone (k STRING, n BIGINT, total DOUBLE) WITH ('connector' = 'blackhole')")
    started = time.perf_counter()
    if kind == "sql":
        tables.execute_sql("INSERT INTO gone SELECT k, COUNT(*), SUM(number) FROM rows_in GROUP BY k").wait()
    else:
        rows = tables.to_data_stream(tables.from_path("rows_in"))
        totals = rows.key_by(lambda row: row[0], Types.STRING()).process(Totals(), OUTPUT)
        tables.from_data_stream(totals).execute_insert("gone").wait()
    print("seconds", time.perf_counter() - started)


if __name__ == "__main__":
    main()
