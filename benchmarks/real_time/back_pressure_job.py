"""The job of `back_pressure.py`: an unbounded source, a shuffle, and a function that sleeps for each record.

Arguments: how many ms it sleeps, how long the text of a record is, and, if not as many as can be, records a second.
"""

import sys
import time

from pystate.common import Types
from pystate.datastream import MapFunction, StreamExecutionEnvironment
from pystate.datastream.connectors.data_generator import DataGeneratorSource, RateLimiterStrategy
from pystate.datastream.connectors.number_seq import NumberSequenceSource

PAIR = Types.TUPLE([Types.LONG(), Types.STRING()])
SECONDS = float(sys.argv[1]) / 1000
TEXT = "x" * int(sys.argv[2])
RATE = float(sys.argv[3]) if len(sys.argv) > 3 else None


class Slowly(MapFunction):
    def map(self, value):
        time.sleep(SECONDS)
        return value


def with_text(number):
    return number, TEXT


def kind(value):
    return value[0] % 100


def same(number):
    return number


environment = StreamExecutionEnvironment.get_execution_environment()
if RATE is None:
    source = NumberSequenceSource(1, 1 << 50)
else:
    source = DataGeneratorSource(same, 1 << 50, RateLimiterStrategy.per_second(RATE), Types.LONG())
numbers = environment.from_source(source, None, "numbers").uid("numbers").map(with_text, PAIR)
slow = numbers.key_by(kind, Types.LONG()).map(Slowly(), PAIR).uid("slow")
slow.filter(lambda _: False).print()
environment.execute("a slow sink")
