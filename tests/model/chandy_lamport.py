"""Distributed snapshots as Chandy and Lamport describe them (1985), and the tailored form that holds channels back.

Processes and channels that keep their order. A snapshot is the state of each process and what was under way in each channel:

- Whoever starts it records its state, sends a marker through all its channels, and records what comes to it.
- Who gets a marker for the first time does the same; the channel that it came through is empty.
- Each further marker closes its channel: what was recorded of it is its state.
- A process is done when all channels to it are closed.

The tailored form (`aligned`) is for graphs without cycles: a process takes nothing more from a channel whose marker has
come, and records its state when all have. So nothing is under way in any channel.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

MARKER = "<marker>"

Channel = tuple[int, int]
"""From which process to which."""
Sends = Sequence[tuple[int, Hashable]]
"""To whom, and what."""


class Program(Protocol):
    """What the processes do besides taking snapshots."""

    def begin(self, process: int) -> Hashable:
        """Return a process's first state."""

    def acts(self, process: int, state: Any) -> Iterator[tuple[str, Hashable, Sends]]:
        """Yield what a process can do by itself: what it is called, its state behind that, what it sends."""

    def take(self, process: int, state: Any, sender: int, message: Any) -> tuple[Hashable, Sends]:
        """Return its state behind a message, and what it sends then."""


class World(NamedTuple):
    """A state of all processes and channels, and of the snapshot.

    Attributes:
        states: Of the processes.
        channels: What is under way.
        recorded: The states that the snapshot has; None where a process has not recorded its own.
        closed: The channels whose markers have come.
        messages: What is recorded of each channel.
    """

    states: tuple[Hashable, ...]
    channels: tuple[tuple[Hashable, ...], ...]
    recorded: tuple[Hashable, ...]
    closed: frozenset[Channel]
    messages: tuple[tuple[Hashable, ...], ...]


class ChandyLamport:
    """The model.

    Args:
        processes: How many.
        channels: Between them; one may lead from a process to itself.
        program: What they do.
        starters: Who may start the snapshot, alone or at the same time.
        aligned: Whether it is the tailored form.
        ordered: Whether channels keep their order, as the algorithm needs it.
    """

    def __init__(
        self,
        processes: int,
        channels: Sequence[Channel],
        program: Program,
        starters: Sequence[int] | None = None,
        *,
        aligned: bool = False,
        ordered: bool = True,
    ) -> None:
        self.processes = range(processes)
        self.channels = list(channels)
        self.program = program
        self.starters = list(self.processes) if starters is None else list(starters)
        self._aligned = aligned
        self._ordered = ordered

    def begin(self) -> World:
        """Return the first state."""
        empty = ((),) * len(self.channels)
        states = tuple(map(self.program.begin, self.processes))
        return World(states, empty, (None,) * len(states), frozenset(), empty)

    # -- what can happen

    def steps(self, world: World) -> Iterator[tuple[str, World]]:
        """Yield all that can happen next."""
        for process in self.starters:
            if world.recorded[process] is None:
                yield f"P{process + 1} starts", self.start(world, process)
        for process in self.processes:
            for index, (label, _, _) in enumerate(self.program.acts(process, world.states[process])):
                yield f"P{process + 1}: {label}", self.act(world, process, index)
        for channel, under_way in zip(self.channels, world.channels, strict=True):
            if self._is_held_back(world, channel):
                continue
            for place in range(len(under_way))[: 1 if self._ordered else None]:
                yield f"{_name(channel)} brings {under_way[place]}", self.deliver(world, channel, place)

    def start(self, world: World, process: int) -> World:
        """Let a process start a snapshot."""
        return self._record(world, process)

    def act(self, world: World, process: int, index: int = 0) -> World:
        """Let a process do something by itself."""
        _, state, sends = list(self.program.acts(process, world.states[process]))[index]
        return self._changed(world, process, state, sends)

    def deliver(self, world: World, channel: Channel, place: int = 0) -> World:
        """Let the first element of a channel arrive, or another one where channels don't keep their order."""
        sender, process = channel
        number = self.channels.index(channel)
        under_way = world.channels[number]
        message = under_way[place]
        world = world._replace(channels=_put(world.channels, number, under_way[:place] + under_way[place + 1 :]))
        if message == MARKER:
            world = world._replace(closed=world.closed | {channel})
            waits = self._aligned and not self._is_done(world, process)
            return world if waits or world.recorded[process] is not None else self._record(world, process)
        if world.recorded[process] is not None and channel not in world.closed:
            recorded = (*world.messages[number], message)
            world = world._replace(messages=_put(world.messages, number, recorded))
        return self._changed(world, process, *self.program.take(process, world.states[process], sender, message))

    # -- what has come of it

    def is_complete(self, world: World) -> bool:
        """Whether all processes have recorded their states, and all channels are closed."""
        return None not in world.recorded and all(self._is_done(world, process) for process in self.processes)

    def channel_states(self, world: World) -> dict[str, tuple[Hashable, ...]]:
        """Return what is recorded of each channel, by its name."""
        return {_name(channel): world.messages[number] for number, channel in enumerate(self.channels)}

    def snapshot(self, world: World) -> World:
        """Return the state in which the snapshot sees processes and channels, as one in which no snapshot was begun."""
        empty = ((),) * len(self.channels)
        return World(world.recorded, world.messages, (None,) * len(world.states), frozenset(), empty)

    # -- how

    def _is_done(self, world: World, process: int) -> bool:
        return all(channel in world.closed for channel in self.channels if channel[1] == process)

    def _is_held_back(self, world: World, channel: Channel) -> bool:
        return self._aligned and channel in world.closed and not self._is_done(world, channel[1])

    def _record(self, world: World, process: int) -> World:
        world = world._replace(recorded=_put(world.recorded, process, world.states[process]))
        markers = [(target, MARKER) for source, target in self.channels if source == process]
        return self._changed(world, process, world.states[process], markers)

    def _changed(self, world: World, process: int, state: Hashable, sends: Sends) -> World:
        channels = world.channels
        for target, message in sends:
            number = self.channels.index((process, target))
            channels = _put(channels, number, (*channels[number], message))
        return world._replace(states=_put(world.states, process, state), channels=channels)


def _put(items: tuple[Any, ...], index: int, item: Any) -> tuple[Any, ...]:
    return (*items[:index], item, *items[index + 1 :])


def _name(channel: Channel) -> str:
    return f"C{channel[0] + 1}{channel[1] + 1}"
