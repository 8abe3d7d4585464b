"""Routes each read to the slot that owns its key, and combines the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

from pystate.common.processes.control import Address
from pystate.core.queryable.kv_state_location import KvStateLocation
from pystate.core.queryable.kv_state_messages import Consistency, QueryableState, QueryOutcome, StateAnswer, StateRead
from pystate.core.queryable.slot_channel import SlotChannel

_AGREE_SECONDS = 0.5
_AGREE_PAUSE = 0.005
_COMPARED = {Consistency.CHECKPOINTED: "checkpoint_id", Consistency.LIVE: "epoch"}
_VERSION = 3
"""The position of the version in an answer as plain data."""


class Locations(Protocol):
    """The locations of a job's queryable states."""

    def states(self) -> list[QueryableState]:
        """Return all states that are known."""

    def locate(self, name: str) -> KvStateLocation | QueryOutcome:
        """Return the location of a state; UNKNOWN_STATE or NOT_SERVING if it has none."""


class ReadRouter:
    """Sends reads to slots. Must only be used on the proxy's event loop.

    Args:
        locations: The locations of states.
        connections_per_slot: How many requests a slot answers concurrently.

    Attributes:
        attempt: The attempt whose slots were asked last.
    """

    def __init__(self, locations: Locations, connections_per_slot: int = 1) -> None:
        self._locations = locations
        self._per_slot = connections_per_slot
        self._channels: dict[tuple[bytes, Address], list[SlotChannel]] = {}
        self.attempt = -1

    def read_one(self, consistency: Consistency, read: StateRead, answered: Callable[[list[Any]], object]) -> None:
        """Read one state of one key; the common case, with a single answer.

        Args:
            consistency: Which version.
            read: State and key.
            answered: Called with the answer as plain data, in a list.
        """
        location = self._locations.locate(read.name)
        if isinstance(location, QueryOutcome):
            answered([StateAnswer(location).to_plain()])
            return
        self._forget_before(location.attempt)
        channel = self._channel(location.addresses[location.subtask_of(read.key)], location.secret)
        channel.ask(
            consistency.value,
            [read.to_plain()],
            lambda found: answered([_told(location, found[0])] if found else [_unreachable()]),
        )

    async def read(self, consistency: Consistency, reads: Sequence[StateRead]) -> list[Any]:
        """Return the answers to reads in order, as plain data.

        All answers of a subtask are of one version. If versions differ between subtasks, those with older ones are asked
        again for a while: checkpoints complete, and epochs end, at slightly different times.
        """
        answers: list[Any] = [None] * len(reads)
        locations: dict[str, KvStateLocation | QueryOutcome] = {}
        wanted: dict[Address, list[int]] = {}
        secret = b""
        for place, read in enumerate(reads):
            location = locations.get(read.name)
            if location is None:
                location = locations[read.name] = self._locations.locate(read.name)
            if isinstance(location, QueryOutcome):
                answers[place] = StateAnswer(location).to_plain()
                continue
            self._forget_before(location.attempt)
            secret = location.secret
            wanted.setdefault(location.addresses[location.subtask_of(read.key)], []).append(place)
        if wanted:
            await self._ask_all(secret, consistency, wanted, reads, answers)
        for place, read in enumerate(reads):
            location = locations[read.name]
            if isinstance(location, KvStateLocation):
                answers[place] = _told(location, answers[place])
        return answers

    def close(self) -> None:
        """Close all connections."""
        for channels in self._channels.values():
            for channel in channels:
                channel.close()
        self._channels.clear()

    def _forget_before(self, attempt: int) -> None:
        """Close the connections to slots of an attempt that is over."""
        if attempt != self.attempt:
            self.close()
            self.attempt = attempt

    async def _ask_all(
        self,
        secret: bytes,
        consistency: Consistency,
        wanted: dict[Address, list[int]],
        reads: Sequence[StateRead],
        answers: list[Any],
    ) -> None:
        loop = asyncio.get_running_loop()
        deadline, ask = None, wanted
        fresh = {address: places for address, places in wanted.items() if all(reads[one].cursor is None for one in places)}
        while True:
            asked = (self._ask(address, secret, consistency, places, reads, answers) for address, places in ask.items())
            await asyncio.gather(*asked)
            ask = _stale(fresh, answers, _COMPARED[consistency])
            if deadline is None:  # what it took to connect is not counted
                deadline = loop.time() + _AGREE_SECONDS
            if not ask or loop.time() > deadline:
                return
            await asyncio.sleep(_AGREE_PAUSE)

    async def _ask(
        self,
        address: Address,
        secret: bytes,
        consistency: Consistency,
        places: Sequence[int],
        reads: Sequence[StateRead],
        answers: list[Any],
    ) -> None:
        found: asyncio.Future[list[Any] | None] = asyncio.get_running_loop().create_future()
        channel = self._channel(address, secret)
        channel.ask(consistency.value, [reads[place].to_plain() for place in places], partial(_resolve, found))
        answered = await found or [_unreachable()] * len(places)
        for place, answer in zip(places, answered, strict=True):
            answers[place] = answer

    def _channel(self, address: Address, secret: bytes) -> SlotChannel:
        channels = self._channels.setdefault((secret, address), [])
        channels[:] = [channel for channel in channels if not channel.is_lost]
        best = min(channels, key=lambda one: one.load, default=None)
        if best is None or (best.load and len(channels) < self._per_slot):
            best = SlotChannel(address, secret)
            channels.append(best)
        return best


def _resolve(future: asyncio.Future[list[Any] | None], found: list[Any] | None) -> None:
    if not future.done():  # not awaited any more
        future.set_result(found)


def _told(location: KvStateLocation, answer: list[Any]) -> list[Any]:
    """Return the answer if a slot doesn't know a state of the job yet: its function declares it later."""
    if answer[0] != QueryOutcome.UNKNOWN_STATE.value:
        return answer
    if not location.is_restored:
        return StateAnswer(QueryOutcome.NO_VALUE).to_plain()
    message = "The slot that has the key has not asked for this state since the job started from a checkpoint."
    return StateAnswer(QueryOutcome.NOT_SERVING, message=message).to_plain()


def _unreachable() -> list[Any]:
    message = "The slot that has the key doesn't answer."
    return StateAnswer(QueryOutcome.NOT_SERVING, message=message).to_plain()


def _stale(wanted: dict[Address, list[int]], answers: Sequence[Any], field: str) -> dict[Address, list[int]]:
    """Return the slots that have answered from an older version than others."""
    versions = {address: list(_versions(map(answers.__getitem__, places), field)) for address, places in wanted.items()}
    newest = max((version for found in versions.values() for version in found), default=0)
    return {address: wanted[address] for address, found in versions.items() if found and min(found) < newest}


def _versions(answers: Iterable[Any], field: str) -> Iterator[int]:
    for answer in answers:
        version = answer[_VERSION]
        if version is not None:
            yield -1 if version[field] is None else int(version[field])
