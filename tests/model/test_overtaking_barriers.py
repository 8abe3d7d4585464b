"""Checkpoints with data in flight, in all runs of small jobs; and that the search finds each rule that is broken."""

from __future__ import annotations

import pytest

from pystate.runtime.engines.real_time.slot.input.channel_state import ChannelStateWriter
from pystate.runtime.engines.real_time.slot.input.checkpointed_input_gate import CheckpointedInputGate
from pystate.runtime.engines.real_time.slot.input.input_channels import InputChannels
from pystate.runtime.engines.real_time.slot.input.input_settings import InputSettings
from pystate.runtime.engines.real_time.slot.input.single_checkpoint_barrier_handler import SingleCheckpointBarrierHandler
from tests.model.gate_subtask import TIMEOUT_MS, GateProtocol, values_of
from tests.model.protocol import Budget, World
from tests.model.real_subtask import Graph
from tests.model.search import FaultFoundError, explore

pytestmark = pytest.mark.usefixtures("no_time")

ALIGNED = InputSettings()
UNALIGNED = InputSettings(unaligned=True)
ALTERNATING = InputSettings(unaligned=True, aligned_timeout_ms=TIMEOUT_MS)
AT_LEAST_ONCE = InputSettings(at_least_once=True)
MODES = [ALIGNED, UNALIGNED, ALTERNATING, AT_LEAST_ONCE]

TWO = Graph((("S1", "A"), ("S2", "A")), (("S1", 1), ("S2", 1)))
MORE = Graph((("S1", "A"), ("S2", "A")), (("S1", 2), ("S2", 1)))
LEVELS = Graph((("S1", "A"), ("S2", "A"), ("A", "B")), (("S1", 1), ("S2", 1)))
DIAMOND = Graph((("S", "A"), ("S", "B"), ("A", "C"), ("B", "C")), (("S", 1),))
THREE = Graph((("S1", "A"), ("S2", "A"), ("S3", "A")), (("S1", 1), ("S2", 1), ("S3", 0)))


@pytest.mark.parametrize("settings", MODES)
@pytest.mark.parametrize("budget", [Budget(failures=1), Budget(losses=1)])
def test_two_sources(settings, budget):
    assert GateProtocol(TWO, budget, settings).run().ends


@pytest.mark.parametrize("graph", [LEVELS, DIAMOND])
def test_two_levels(graph):
    assert GateProtocol(graph, Budget(), UNALIGNED).run().ends


@pytest.mark.slow
@pytest.mark.parametrize("settings", MODES)
@pytest.mark.parametrize(
    ("graph", "budget"),
    [
        (MORE, Budget(failures=1)),
        (TWO, Budget(triggers=2, failures=1)),
        (TWO, Budget(triggers=2, expiries=1)),
        (LEVELS, Budget()),
        (LEVELS, Budget(failures=1)),
        (DIAMOND, Budget()),
        (DIAMOND, Budget(failures=1)),
        (THREE, Budget()),
    ],
)
def test_larger_runs(graph, budget, settings):
    assert GateProtocol(graph, budget, settings).run().ends


@pytest.mark.parametrize("settings", [UNALIGNED, ALTERNATING])
def test_there_are_runs_with_data_in_flight_in_the_checkpoint(settings):
    job = GateProtocol(TWO, Budget(), settings)

    def holds_data(world: World) -> str | None:
        return "found" if any(values_of(state[2]) for _, state in world.parts) else None

    with pytest.raises(FaultFoundError, match="found"):
        explore(job.begin(), job.steps, holds_data)


def test_aligned_checkpoints_of_sources_that_can_be_wound_back_need_no_data_in_flight():
    explored = GateProtocol(LEVELS, Budget(), ALIGNED).run()
    assert any(world.parts for world in explored.states)
    assert not any(state[2] for world in explored.states for _, state in world.parts)


# -- rules that are broken


def finds(what, graph, budget, settings):
    with pytest.raises(FaultFoundError, match=what) as found:
        GateProtocol(graph, budget, settings).run()
    return found.value.trace


def test_what_is_held_back_is_processed_early(monkeypatch):
    monkeypatch.setattr(InputChannels, "hold_back", lambda *_: None)
    finds("is seen by A, and comes again", TWO, Budget(), ALIGNED)


def test_data_that_was_queued_is_not_persisted(monkeypatch):
    persist = SingleCheckpointBarrierHandler._persist_queued

    class Forgets:
        def write(self, *_):
            pass

    monkeypatch.setattr(
        SingleCheckpointBarrierHandler, "_persist_queued", lambda self, _, *rest: persist(self, Forgets(), *rest)
    )
    finds("is lost in front of A", TWO, Budget(), UNALIGNED)


def test_data_that_comes_later_is_not_persisted(monkeypatch):
    added = SingleCheckpointBarrierHandler.added

    def forget(self, channel, element):
        writer = self._writer
        if writer is not None:
            writer.write, write = lambda *_: None, writer.write
        try:
            return added(self, channel, element)
        finally:
            if writer is not None:
                writer.write = write

    monkeypatch.setattr(SingleCheckpointBarrierHandler, "added", forget)
    finds("is lost in front of A", TWO, Budget(), UNALIGNED)


def test_data_after_the_barrier_is_persisted(monkeypatch):
    arrive = SingleCheckpointBarrierHandler._barrier_added

    def forget(self, channel, barrier):
        done = arrive(self, channel, barrier)
        if self._alignment is not None:
            self._alignment.arrived.discard(channel)
            self._seen = {*getattr(self, "_seen", set()), channel}
            if len(self._seen) == len(self._channels):
                for one in range(len(self._channels)):
                    if self._alignment is not None:
                        self._arrive(self._alignment, one)
        return done

    monkeypatch.setattr(SingleCheckpointBarrierHandler, "_barrier_added", forget)
    finds("is seen by A, and comes again", TWO, Budget(), UNALIGNED)


def test_channel_state_is_not_replayed(monkeypatch):
    monkeypatch.setattr(CheckpointedInputGate, "restore", lambda *_: None)
    trace = finds("at the end: .* is lost in front of A", TWO, Budget(failures=1), UNALIGNED)
    assert "the attempt fails" in trace


def test_channel_state_is_dropped(monkeypatch):
    monkeypatch.setattr(ChannelStateWriter, "finish", lambda _: None)
    finds("is lost in front of A", TWO, Budget(), ALTERNATING)


def test_a_channel_that_is_never_released(monkeypatch):
    monkeypatch.setattr(InputChannels, "release", lambda _: None)
    finds("at the end|barriers have not come through", TWO, Budget(), ALIGNED)
