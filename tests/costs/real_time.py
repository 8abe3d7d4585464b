"""The paths of the real-time engine: what its threads do one after the other, in one thread, with real channels between."""

from __future__ import annotations

import itertools
import math
import socket
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from pystate.common import Types
from pystate.common.configuration.configuration import Configuration
from pystate.common.processes.control import Peer
from pystate.connectors.generated.number_sequence import NumberSequenceSource
from pystate.core.api.functions import KeyedProcessFunction
from pystate.core.api.state import ValueStateDescriptor
from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.engines.real_time.slot.frames import PLACE_SIZE, place_of, unpack_frame
from pystate.runtime.engines.real_time.slot.output.record_writer import nowhere
from pystate.runtime.engines.real_time.slot.real_time_slot_engine import RealTimeSlotEngine
from pystate.runtime.engines.real_time.slot.relay_server import RelayPort
from pystate.runtime.plan.channels import JobChannels
from pystate.runtime.plan.planner import JobPlanner
from pystate.runtime.plan.task import JobEnvironment
from pystate.runtime.slot.slot_engine import SlotContext
from tests.costs.measured import RECORDS, Measured
from tests.runtime.engines.real_time.driver.jobs import graph_of

FRAMES = 20
"""How many a run has, of one record each."""
_KEYS = 10
_SETTINGS = {"execution.engine": "real-time", "pipeline.auto-watermark-interval": "0 ms"}
_ALL_STATE, _ALL_BYTES = 1 << 20, 1 << 40


class _Count(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value[0], count


def _program(environment: Any) -> None:
    numbers = environment.from_source(NumberSequenceSource(0, 1 << 40), None, "numbers")
    words = numbers.map(lambda number: f"word-{number % _KEYS} 1").map(str.split).map(lambda words: (words[0], 1))
    words.key_by(lambda pair: pair[0]).process(_Count()).print()


class _Driver:
    """Takes every call."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


class _Slot:
    """The subtasks of the program in one slot, which take their steps when they are told to."""

    def __init__(self, folder: Path) -> None:
        graph, configuration = graph_of(_program, _SETTINGS), Configuration(_SETTINGS)
        plan = JobPlanner(graph, graph.assign_uids(auto=True), 1, None).plan([])
        driver: Any = _Driver()
        folder = Path(mkdtemp(dir=folder))
        slot = SlotContext("b" * 32, 0, 0, b"secret", driver, "127.0.0.1", range(1), str(folder), unix_sockets=True)
        engine = RealTimeSlotEngine(slot, JobChannels.of(plan))
        environment = JobEnvironment("b" * 32, "job", 0, configuration.to_dict(), "hashmap", 1 << 20, str(folder))
        # of any type: what their threads call is private
        tasks: Any = [engine.make_subtask(task, environment, lambda run: run()) for task in plan.tasks]
        never = SimpleNamespace(longest_take_s=math.inf, is_over=False, due=lambda: None, handed_on=lambda *_: None)
        for task in tasks:
            task.open()
            task._rest, task._interval = lambda *_: None, never
        self.source, self.keyed = tasks
        self.source.source.bound(RECORDS, _ALL_BYTES)
        self.keyed._slices = SimpleNamespace(of=lambda batch: [batch])  # which else are as long as a slice may take
        self._numbers = itertools.count(1)
        self._folder, self._engine = folder, engine

    def read(self) -> None:
        self.source._step()
        self.source._hand_on()

    def process(self) -> None:
        while self.keyed._gate.has_events:
            self.keyed._step()
        self.keyed._hand_on()

    def read_and_process(self) -> None:
        self.read()
        self.process()

    def read_and_drop(self) -> None:
        self.read()
        while self.keyed._gate.poll() is not None:
            pass

    def checkpoint(self) -> None:
        number = next(self._numbers)
        barrier = CheckpointBarrier(number, f"file:{self._folder}/{number}", _ALL_STATE, 0)
        self.source.trigger_checkpoint(barrier)
        self.source._step()
        self.process()
        for subtask in (self.source, self.keyed):
            subtask.checkpoints.ended(number, completed=True)

    def close(self) -> None:
        for subtask in (self.source, self.keyed):
            subtask.close()
        self._engine.close()


def _frames_of_one_record(slot: _Slot, *, relayed: bool) -> Measured:
    """Return frames of one record to another slot: written, sent, passed on where a relay does that, received, and read."""
    written: list[Any] = []
    output = slot.source._output
    output.write, write = lambda *call: written.append(call), output.write
    slot.read_and_drop()
    output.write = write
    (spec, batch, metrics), writer, gate = written[0], output._writer, slot.keyed._gate
    record, schema = batch.slice(0, 1), slot.keyed._schemas[0]
    (to_relay, of_slot), (to_slot, of_relay) = ([Peer(one.detach()) for one in socket.socketpair()] for _ in range(2))
    port: Any = RelayPort(gate.receive, lambda _: None)
    port._connection = to_relay
    if not relayed:
        port._receivers[1, 0] = to_slot
    writer._sender, writer._local = port, nowhere

    def run() -> None:
        for _ in range(FRAMES):
            output.write(spec, record, metrics)
            if relayed:
                frame = of_slot.recv_bytes()
                assert place_of(frame) == (1, 0)
                to_slot.send_bytes(frame, PLACE_SIZE)
            gate.receive(unpack_frame(of_relay.recv_bytes()))
            assert pa.ipc.read_record_batch(pa.py_buffer(gate.poll().data), schema).num_rows == 1

    def close() -> None:
        for one in (to_relay, of_slot, to_slot, of_relay):
            one.close()
        slot.close()

    way = "through a relay" if relayed else "to another slot"
    return Measured(f"real-time, a frame of one record {way}", FRAMES, run, close)


def real_time(folder: Path) -> Iterator[Measured]:
    """Make the paths; their files are below a folder."""
    for name, units, run in (
        ("real-time, source and steps", RECORDS, _Slot.read_and_drop),
        ("real-time, source and steps to keyed state", RECORDS, _Slot.read_and_process),
        ("real-time, a barrier through two subtasks", 1, _Slot.checkpoint),
    ):
        slot = _Slot(folder)
        slot.read_and_process()
        yield Measured(name, units, run.__get__(slot), slot.close)
    yield _frames_of_one_record(_Slot(folder), relayed=True)
    yield _frames_of_one_record(_Slot(folder), relayed=False)
