"""Sources of tests: the documents' counter, and those that misbehave."""

from __future__ import annotations

import threading

from pystate.common import Types
from pystate.connectors.source import ParallelSourceFunction, SourceFunction
from pystate.datastream.functions import CheckpointedFunction
from pystate.datastream.state import ListStateDescriptor


class Counter(SourceFunction, CheckpointedFunction):
    """Counts; its offset is operator state."""

    def __init__(self, end):
        self.end = end
        self.offset = 0
        self.running = True

    def initialize_state(self, context):
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("offset", Types.LONG()))
        self.offset = next(iter(self.state.get()), 0)

    def snapshot_state(self, context):
        self.state.update([self.offset])

    def run(self, ctx):
        while self.running and self.offset < self.end:
            with ctx.get_checkpoint_lock():
                ctx.collect(self.offset)
                self.offset += 1

    def cancel(self):
        self.running = False


class MovesFirst(Counter):
    """The other order: the position moves before the element."""

    def run(self, ctx):
        while self.running and self.offset < self.end:
            with ctx.get_checkpoint_lock():
                self.offset += 1
                ctx.collect(self.offset - 1)


class InOneHold(Counter):
    """Hands all on inside of one hold of the lock."""

    def run(self, ctx):
        with ctx.get_checkpoint_lock():
            while self.running and self.offset < self.end:
                self.offset += 1
                ctx.collect(self.offset - 1)


class Blocking(SourceFunction):
    """Gives one element and waits, holding the lock or not, and deaf to `cancel` or not."""

    def __init__(self, *, locked=False, deaf=False):
        self.locked = locked
        self.deaf = deaf

    def open(self, runtime_context):
        self.over = threading.Event()
        self.cancelled = threading.Event()
        self.closed = False

    def run(self, ctx):
        ctx.collect("first")
        if self.locked:
            with ctx.get_checkpoint_lock():
                self.over.wait()
        else:
            self.over.wait()

    def cancel(self):
        self.cancelled.set()
        if not self.deaf:
            self.over.set()

    def close(self):
        self.closed = True


class Raising(SourceFunction):
    """Gives three elements and raises."""

    def run(self, ctx):
        for number in range(3):
            ctx.collect(number)
        message = "the broker is gone"
        raise ConnectionError(message)

    def cancel(self):
        pass


class Timed(ParallelSourceFunction):
    """Elements with times, and watermarks; then it waits."""

    def open(self, runtime_context):
        self.over = threading.Event()

    def run(self, ctx):
        for number in range(3):
            ctx.collect_with_timestamp(number, 1000 * number)
        ctx.emit_watermark(1500)
        ctx.collect_with_timestamp(3, 3000)
        ctx.emit_watermark(2500)
        ctx.collect_with_timestamp(4, 4000)
        self.over.wait()

    def cancel(self):
        self.over.set()
