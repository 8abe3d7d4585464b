"""Direct reads: a client queries slots without the proxy where possible.

The proxy tells the locations of a state's key groups, and each slot answers for its own. Slots may be unreachable, and move:
so whatever fails this way goes through the proxy, which is asked for the locations again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from pystate.common.processes.control import Address
from pystate.common.processes.loopback import is_loopback
from pystate.core.queryable.kv_state_location import KvStateLocation
from pystate.core.queryable.kv_state_messages import Consistency, QueryableState, QueryOutcome, StateRead
from pystate.core.queryable.slot_channel import SlotChannel

_MOST_KEY_BYTES = 1 << 16
"""Requests with longer keys go over the proxy, which knows how long they may be."""
_NOT_TRIED_SECONDS = 30.0
"""How long a slot that is out of reach isn't tried again."""
_FOR_THE_PROXY = frozenset({QueryOutcome.NOT_SERVING.value, QueryOutcome.UNKNOWN_STATE.value})
"""Outcomes at which the proxy is asked: it knows where the key is by now, or whether the job has the state elsewhere."""


def location_of(state: QueryableState, places: dict[str, Any], key: bytes) -> KvStateLocation:
    """Parse a state's location from a proxy.

    Args:
        state: The state.
        places: The locations sent by the proxy.
        key: The key to prove to its slots.

    Raises:
        ValueError, TypeError, LookupError: They are invalid.
    """
    addresses = tuple((str(host), int(port)) for host, port in places["addresses"])
    if not addresses:
        text = "a state is in one slot or more"
        raise ValueError(text)
    return KvStateLocation(state, int(places["attempt"]), key, addresses)


class DirectReads:
    """Keeps the locations of states, and queries slots. Only for the event loop's thread."""

    def __init__(self) -> None:
        self._attempt: int | None = None
        self._locations: dict[str, KvStateLocation] = {}
        self._channels: dict[Address, SlotChannel] = {}
        self._not_before: dict[Address, float] = {}
        self._from_elsewhere = False

    def learn(self, location: KvStateLocation, proxy: str) -> None:
        """Store the location of a state.

        Args:
            location: The location sent by the proxy.
            proxy: The proxy's address.
        """
        if location.attempt != self._attempt:
            self.forget()
            self._attempt = location.attempt
        self._from_elsewhere = not is_loopback(proxy)
        self._locations[location.state.name] = location

    def knows(self, name: str) -> bool:
        """Return whether the location of a state is known."""
        return name in self._locations

    def forget(self) -> None:
        """Close the connections: the locations may be of an attempt that is over."""
        self._attempt = None
        self._locations.clear()
        channels = list(self._channels.values())
        self._channels.clear()
        for channel in channels:
            channel.close()

    def follow(self, attempt: int) -> None:
        """Forget the locations of other attempts than the current one reported by the proxy."""
        if attempt != self._attempt:
            self.forget()

    async def read(self, consistency: Consistency, reads: Sequence[StateRead]) -> tuple[list[Any], int] | None:
        """Return the answers of reads as plain data, and their time, ms since 1970; None: use the proxy.

        Args:
            consistency: Which version to read.
            reads: The reads; if they aren't all for one slot, the proxy has to be used.
        """
        channel = self._channel(reads)
        if channel is None:
            return None
        found: asyncio.Future[list[Any] | None] = asyncio.get_running_loop().create_future()
        channel.ask(consistency.value, [read.to_plain() for read in reads], partial(_resolve, found))
        answers = await found
        outcomes = {QueryOutcome.NOT_SERVING.value} if answers is None else {answer[0] for answer in answers}
        if QueryOutcome.NOT_SERVING.value in outcomes and self._channels.get(channel.address) is channel:
            self.forget()
        if answers is None or outcomes & _FOR_THE_PROXY:
            return None
        return answers, channel.now

    def _channel(self, reads: Sequence[StateRead]) -> SlotChannel | None:
        """Return the open connection to the slot that has all the keys; start to connect if there is none."""
        first = self._address(reads[0])
        if first is None or any(self._address(read) != first for read in reads[1:]):
            return None
        address, secret = first
        channel = self._channels.get(address)
        if channel is not None:
            return channel if channel.is_open else None
        if asyncio.get_running_loop().time() >= self._not_before.get(address, 0.0) and self._is_near(address):
            self._channels[address] = SlotChannel(address, secret, self._lost)
        return None

    def _address(self, read: StateRead) -> tuple[tuple[str, int], bytes] | None:
        location = self._locations.get(read.name)
        if location is None or len(read.key) > _MOST_KEY_BYTES:
            return None
        return location.addresses[location.subtask_of(read.key)], location.secret

    def _is_near(self, address: tuple[str, int]) -> bool:
        """Return whether an address is reachable: a loopback address only from the same machine."""
        near = not (self._from_elsewhere and is_loopback(address[0]))
        if not near:
            self._not_now(address)
        return near

    def _not_now(self, address: Address) -> None:
        self._not_before[address] = asyncio.get_running_loop().time() + _NOT_TRIED_SECONDS

    def _lost(self, channel: SlotChannel) -> None:
        """Retry an unreachable address later; a lost slot invalidates all locations of its attempt."""
        if self._channels.get(channel.address) is not channel:
            return
        if channel.was_open:
            self.forget()
        else:
            del self._channels[channel.address]
            self._not_now(channel.address)


def _resolve(future: asyncio.Future[list[Any] | None], found: list[Any] | None) -> None:
    if not future.done():  # nobody is waiting any more
        future.set_result(found)
