"""What processes of `ChandyLamport` do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from tests.model.chandy_lamport import MARKER, ChandyLamport, Channel, World


class Log(NamedTuple):
    """What a process has sent and received, in order: (to whom, what), (from whom, what)."""

    sent: tuple = ()
    received: tuple = ()


class Chatter:
    """Each process sends messages to whom it wants, and keeps a log of all.

    Args:
        channels: Between them.
        most: How many messages each process sends.
    """

    def __init__(self, channels: Sequence[Channel], most: Sequence[int]) -> None:
        self._targets = {source: [target for start, target in channels if start == source] for source, _ in channels}
        self._most = most

    def begin(self, process):
        del process
        return Log()

    def acts(self, process, state):
        for target in self._targets.get(process, []) if len(state.sent) < self._most[process] else []:
            message = f"m{process + 1}.{len(state.sent) + 1}"
            sent = state._replace(sent=(*state.sent, (target, message)))
            yield f"sends {message} to P{target + 1}", sent, [(target, message)]

    def take(self, process, state, sender, message):
        del process
        return state._replace(received=(*state.received, (sender, message))), []


def inconsistency(model: ChandyLamport, world: World) -> str | None:
    """Say why a complete snapshot of `Chatter` is no consistent cut; None where it is one, or isn't complete."""
    if not model.is_complete(world):
        return None
    for number, (source, target) in enumerate(model.channels):
        sent = [message for to, message in world.recorded[source].sent if to == target]
        received = [message for sender, message in world.recorded[target].received if sender == source]
        if sent != [*received, *world.messages[number]]:
            return f"sent {sent}, received {received}, under way {world.messages[number]}"
    return None


class Named:
    """Processes whose events have names, for a run that is told step by step; a message has the name of its sending."""

    names = ("ABCDE", "FGH", "IJK")

    def begin(self, process):
        del process
        return ()

    def acts(self, process, state):
        for target in range(len(self.names)):
            name = self.names[process][len(state)]
            yield f"{name} to P{target + 1}", (*state, name), [(target, name)]

    def take(self, process, state, sender, message):
        del sender
        return (*state, f"{message} -> {self.names[process][len(state)]}"), []


class Waiting(NamedTuple):
    """A process of `Ring`: whether it waits for its neighbour, owes the other one an answer, how often it asks yet."""

    waits: bool
    owes: bool
    asks: int


class Ring:
    """Processes that each ask the next one, and answer none while they wait themselves: all may come to wait for each other.

    Args:
        asks: How often each asks.
    """

    def __init__(self, asks: Sequence[int]) -> None:
        self._asks = asks

    @property
    def channels(self) -> list[Channel]:
        count = len(self._asks)
        asking = [(index, (index + 1) % count) for index in range(count)]
        return asking + [(answering, asker) for asker, answering in asking]

    def begin(self, process):
        return Waiting(waits=False, owes=False, asks=self._asks[process])

    def acts(self, process, state):
        if not state.waits and state.asks:
            yield "asks", state._replace(waits=True, asks=state.asks - 1), [((process + 1) % len(self._asks), "ask")]

    def take(self, process, state, sender, message):
        if message == "ask":
            return (state._replace(owes=True), []) if state.waits else (state, [(sender, "answer")])
        before = (process - 1) % len(self._asks)
        return state._replace(waits=False, owes=False), [(before, "answer")] if state.owes else []


def is_deadlocked(world: World) -> bool:
    """Whether all wait for each other, and no answer is under way."""
    answers = any("answer" in under_way for under_way in world.channels)
    return all(state.waits for state in world.states) and not answers


class Dataflow:
    """Sources that hand on their records one by one, and processes that take note of each and hand it on.

    A source's state is how many records it has handed on, so it can be wound back. It sends them to its targets in turn.

    Args:
        channels: Between them.
        records: Of each source, by process.
    """

    def __init__(self, channels: Sequence[Channel], records: dict[int, int]) -> None:
        sources = {source for source, _ in channels}
        self._targets = {source: [target for start, target in channels if start == source] for source in sources}
        self._records = records
        ends = {target for _, target in channels} - sources
        self.ends = sorted(ends)

    def begin(self, process):
        return 0 if process in self._records else ()

    def acts(self, process, state):
        if state != self._records.get(process, state):
            targets = self._targets[process]
            yield f"record {state}", state + 1, [(targets[state % len(targets)], (process, state))]

    def take(self, process, state, sender, message):
        del sender
        return tuple(sorted([*state, message])), [(target, message) for target in self._targets.get(process, [])][:1]

    def run(self, model: ChandyLamport, world: World) -> Counter:
        """Run to the end, in any order, and return how often each record has come to the end of the graph."""
        while True:
            for process in model.processes:
                if list(self.acts(process, world.states[process])):
                    world = model.act(world, process)
                    break
            else:
                full = [channel for channel, way in zip(model.channels, world.channels, strict=True) if way]
                if not full:
                    return Counter(record for end in self.ends for record in world.states[end])
                assert world.channels[model.channels.index(full[0])][0] != MARKER
                world = model.deliver(world, full[0])

    def once(self) -> Counter:
        """Return each record once."""
        return Counter((source, number) for source, count in self._records.items() for number in range(count))
