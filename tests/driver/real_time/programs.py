"""Programs for the real-time engine whose slots import them."""

from __future__ import annotations

import time
from pathlib import Path

from pystate.common import Types
from pystate.connectors.data_generator import DataGeneratorSource, RateLimiterStrategy
from pystate.datastream import KeyedProcessFunction
from pystate.datastream.state import ValueStateDescriptor

PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
KEYS = 17
GROUPS = 5


class Count(KeyedProcessFunction):
    """Counts per key; fails where there is a mark, and takes it away."""

    def __init__(self, mark=None):
        self.mark = mark

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        if self.mark is not None and Path(self.mark).exists():
            Path(self.mark).unlink()
            raise ValueError(value)
        self.count.update((self.count.value() or 0) + 1)
        yield value % KEYS, self.count.value()


class InOrder(KeyedProcessFunction):
    """Hands counts on, of which each must be one more than the one before: nothing is lost, doubled or overtaken."""

    def open(self, runtime_context):
        descriptor = ValueStateDescriptor("last", Types.MAP(Types.LONG(), Types.LONG()))
        self.last = runtime_context.get_state(descriptor)

    def process_element(self, value, ctx):
        key, count = value
        last = dict(self.last.value() or {})
        if last.get(key, 0) + 1 != count:
            message = f"{count} of {key} behind {last.get(key, 0)}"
            raise AssertionError(message)
        last[key] = count
        self.last.update(last)
        yield value


class SlowInOrder(InOrder):
    """The same, and takes its time."""

    def __init__(self, seconds):
        self.seconds = seconds

    def process_element(self, value, ctx):
        time.sleep(self.seconds)
        yield from super().process_element(value, ctx)


def numbers(count, per_second):
    return DataGeneratorSource(_same, count, RateLimiterStrategy.per_second(per_second), Types.LONG())


def counts(count=4000, per_second=1500, mark=None, slow=0.0):
    """Return the program: numbers, counted by key, and looked at by group of keys behind another shuffle.

    Args:
        count: How many numbers.
        per_second: Of them.
        mark: Where this file is, counting fails.
        slow: Seconds for each look.
    """

    def program(environment):
        stream = environment.from_source(numbers(count, per_second), None, "numbers").uid("numbers")
        counted = stream.key_by(_key, Types.LONG()).process(Count(mark), PAIR).uid("count")
        look = SlowInOrder(slow) if slow else InOrder()
        counted.key_by(_group, Types.LONG()).process(look, PAIR).uid("in order").print()

    return program


def _same(number):
    return number


def _key(number):
    return number % KEYS


def _group(pair):
    return pair[0] % GROUPS
