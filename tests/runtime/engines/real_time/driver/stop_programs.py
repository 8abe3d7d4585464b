"""A program in which something comes out all the time, also where nothing comes in; its slots import it."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

from pystate.common import Time, Types
from pystate.datastream import AsyncDataStream, AsyncFunction, KeyedProcessFunction
from pystate.datastream.functions import SinkFunction
from pystate.datastream.state import ValueStateDescriptor
from tests.runtime.engines.real_time.driver.programs import numbers

COUNT = 1_000_000
KEYS = 4
TICK_MS = 5
LINE = Types.STRING()


class Ticks(KeyedProcessFunction):
    """Counts ticks of the clock for each key that has come."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("ticks", Types.LONG()))

    def process_element(self, value, ctx):
        if self.count.value() is None:
            self.count.update(0)
            ctx.timer_service().register_processing_time_timer(ctx.timer_service().current_processing_time())

    def on_timer(self, timestamp, ctx):
        self.count.update(self.count.value() + 1)
        ctx.timer_service().register_processing_time_timer(timestamp + TICK_MS)
        yield f"tick {ctx.get_current_key()} {self.count.value()}"


class Ask(AsyncFunction):
    """Answers each number late."""

    async def async_invoke(self, value):
        await asyncio.sleep(0.2)
        return [f"answer {value}"]


class Lines(SinkFunction):
    """Writes each line at once, as a sink without transactions: what has come out is out."""

    def __init__(self, folder):
        self._folder = folder

    def open(self, runtime_context):
        Path(self._folder).mkdir(exist_ok=True)
        self._file = Path(self._folder, f"{os.getpid()}-{threading.get_ident()}").open("a")

    def invoke(self, value, context):
        self._file.write(f"{value}\n")
        self._file.flush()


def ticks_and_answers(folder):
    """Return the program: timers by the clock that register themselves again, and calls that are always under way."""

    def program(environment):
        stream = environment.from_source(numbers(COUNT, 400), None, "numbers").uid("numbers")
        ticks = stream.key_by(_key, Types.LONG()).process(Ticks(), LINE).uid("ticks")
        answers = AsyncDataStream.unordered_wait(stream.rebalance(), Ask(), Time.seconds(60), 1000, LINE).uid("answers")
        ticks.union(answers).rebalance().add_sink(Lines(folder)).uid("lines")

    return program


def _key(number):
    return number % KEYS


def written(folder):
    """Return all lines that have come out."""
    lines = [line for file in Path(folder).glob("*") for line in file.read_text().splitlines(keepends=True)]
    return [line.strip() for line in lines if line.endswith("\n")]
