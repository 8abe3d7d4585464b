"""The locations of a job's queryable states, over all its attempts (Flink's KvStateLocationRegistry)."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from pystate.core.queryable.kv_state_location import KvStateLocation, key_of_reads
from pystate.core.queryable.kv_state_messages import QueryableState, QueryOutcome
from pystate.core.queryable.server.kv_state_registry import same_name


@dataclass(frozen=True)
class _Attempt:
    number: int
    secret: bytes
    addresses: dict[int, tuple[str, int]]
    states: dict[str, tuple[QueryableState, int]]
    is_restored: bool = False
    runs: bool = False


class KvStateLocations:
    """The registry that slots report to and the proxy reads. Between two attempts it knows the states, but no location."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._attempt: _Attempt | None = None
        self._known: dict[str, QueryableState] = {}

    def begin_attempt(self, number: int, secret: bytes, *, is_restored: bool = False) -> None:
        """Drop the locations of the previous attempt.

        Args:
            number: Of the attempt.
            secret: Of the attempt.
            is_restored: Whether it starts from a checkpoint.
        """
        with self._lock:
            self._attempt = _Attempt(number, key_of_reads(secret), {}, {}, is_restored)

    def register(self, attempt: int, index: int, address: tuple[str, int], states: Iterable[tuple[Any, int]]) -> None:
        """Register the states and the address of a slot; it may register more later.

        Args:
            attempt: Of the slot.
            index: The slot's number.
            address: Host and port.
            states: As plain data, each with the parallelism of its operator.

        Raises:
            StateDeclarationError: Two operators have a state of one queryable name.
        """
        found = [(QueryableState.from_plain(plain), parallelism) for plain, parallelism in states]
        with self._lock:
            current = self._attempt
            if current is None or current.number != attempt:
                return
            current.addresses[index] = address
            for state, parallelism in found:
                known, _ = current.states.setdefault(state.name, (state, parallelism))
                if (known.uid, known.state.name) != (state.uid, state.state.name):
                    raise same_name(known, state)
                self._known[state.name] = state

    def attempt_runs(self, number: int) -> None:
        """Record that all state is restored."""
        with self._lock:
            if self._attempt is not None and self._attempt.number == number:
                self._attempt = replace(self._attempt, runs=True)

    def attempt_over(self) -> None:
        """Record that no slot serves any more."""
        with self._lock:
            self._attempt = None

    def states(self) -> list[QueryableState]:
        """Return all states that any attempt had."""
        with self._lock:
            return sorted(self._known.values(), key=lambda state: state.name)

    def locate(self, name: str) -> KvStateLocation | QueryOutcome:
        """Return the location of a state; UNKNOWN_STATE or NOT_SERVING if it has none."""
        with self._lock:
            current = self._attempt
            if current is None or not current.runs:
                return QueryOutcome.NOT_SERVING
            found = current.states.get(name)
            if found is None:
                # an attempt before had it, and its function declares it when it needs it: until then the state rests
                return QueryOutcome.NOT_SERVING if name in self._known else QueryOutcome.UNKNOWN_STATE
            state, parallelism = found
            addresses = [current.addresses.get(index) for index in range(parallelism)]
            if None in addresses:
                return QueryOutcome.NOT_SERVING
            found_addresses = tuple(one for one in addresses if one is not None)
            return KvStateLocation(state, current.number, current.secret, found_addresses, current.is_restored)
