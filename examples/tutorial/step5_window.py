"""Step 5: windows. What each card spends in five minutes.

pystate run step5_window.py INPUT
"""

import sys

from payments import by_card, in_time, read

from pystate.common import Row, Time, Types
from pystate.datastream import AggregateFunction, ProcessWindowFunction, StreamExecutionEnvironment
from pystate.datastream.window import TumblingEventTimeWindows

SPENT = Types.ROW_NAMED(["card", "start", "cents"], [Types.STRING(), Types.LONG(), Types.LONG()])


class Sum(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, payment, accumulator):
        return accumulator + payment.cents

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return a + b


class WithWindow(ProcessWindowFunction):
    """Emits (card, start of the window, cents)."""

    def process(self, key, context, elements):
        yield Row(card=key, start=context.window().start, cents=next(iter(elements)))


def spent(payments):
    windows = by_card(payments).window(TumblingEventTimeWindows.of(Time.minutes(5)))
    sums = windows.aggregate(Sum(), WithWindow(), accumulator_type=Types.LONG(), output_type=SPENT)
    return sums.name("spent").uid("spent")


def main(folder):
    env = StreamExecutionEnvironment.get_execution_environment()
    spent(in_time(read(env, folder))).print()
    env.execute("payments")


if __name__ == "__main__":
    main(sys.argv[1])
