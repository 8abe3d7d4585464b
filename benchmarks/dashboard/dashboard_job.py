"""The job that the dashboard is shown and tried with: orders, of which one customer has most, and whose work is slow.

    pystate run -d -p 2 benchmarks/dashboard/dashboard_job.py [STOP_FILE] [BAD_ORDER]

The customer's subtask is the slow one, and its key group the heavy one. While STOP_FILE is there, that subtask's part of
a checkpoint takes longer than the checkpoint may. BAD_ORDER is the number of an order at which the function fails.
"""

import sys
import time
from pathlib import Path

from pystate.common import Types
from pystate.datastream import (
    CheckpointedFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from pystate.datastream.connectors.data_generator import DataGeneratorSource, RateLimiterStrategy

ORDER = Types.TUPLE([Types.STRING(), Types.LONG(), Types.DOUBLE()])
TOTAL = Types.TUPLE([Types.STRING(), Types.DOUBLE()])
STOP_FILE = Path(sys.argv[1]) if len(sys.argv) > 1 else None
BAD_ORDER = int(sys.argv[2]) if len(sys.argv) > 2 else None
HEAVY, SECONDS, KEPT, STOPPED_S = "acme", 0.004, 400, 8


def order(number):
    customer = HEAVY if number % 2 else f"customer-{number * 7919 % 300:03d}"
    return customer, number, (number * 31 % 997) / 10


class Spent(KeyedProcessFunction, CheckpointedFunction):
    """Sums what each customer has spent, and keeps the last orders."""

    def open(self, runtime_context):
        self._total = runtime_context.get_state(ValueStateDescriptor("total", Types.DOUBLE()))
        self._orders = runtime_context.get_list_state(ListStateDescriptor("orders", Types.LONG()))
        self._is_slow = False

    def process_element(self, value, ctx):
        customer, number, amount = value
        if number == BAD_ORDER:
            amount = amount / 0
        if customer == HEAVY:
            self._is_slow = True
            time.sleep(SECONDS)
        total = (self._total.value() or 0.0) + amount
        self._total.update(total)
        if number % 4 < 2:
            self._orders.add(number)
        yield customer, total

    def initialize_state(self, context):
        pass

    def snapshot_state(self, context):
        if self._is_slow and STOP_FILE is not None and STOP_FILE.exists():
            time.sleep(STOPPED_S)


def main():
    environment = StreamExecutionEnvironment.get_execution_environment()
    source = DataGeneratorSource(order, 1 << 50, RateLimiterStrategy.per_second(250), ORDER)
    orders = environment.from_source(source, None, "orders").uid("orders")
    spent = orders.key_by(lambda one: one[0], Types.STRING()).process(Spent(), TOTAL).name("spent by customer").uid("spent")
    spent.filter(lambda one: one[1] < 0).name("refunds").uid("refunds").print()
    environment.execute("orders" if BAD_ORDER is None else "orders with a bad one")


if __name__ == "__main__":
    main()
