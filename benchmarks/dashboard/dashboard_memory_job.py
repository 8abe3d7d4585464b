"""The job of `dashboard_memory.py`: fifty rows a second without end, counted by key."""

from pystate.common import Types
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.connectors.data_generator import DataGeneratorSource, RateLimiterStrategy

PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])

environment = StreamExecutionEnvironment.get_execution_environment()
source = DataGeneratorSource(lambda n: (n % 100, 1), 1 << 50, RateLimiterStrategy.per_second(50), PAIR)
pairs = environment.from_source(source, None, "pairs").uid("pairs")
counted = pairs.key_by(lambda pair: pair[0], Types.LONG()).sum(1).uid("counts")
counted.filter(lambda _: False).print()
environment.execute("fifty rows a second")
