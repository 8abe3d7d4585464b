"""Slots of toys behind a real proxy: real servers, on threads, that answer from a dict."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pystate.common.configuration.option_types import ANY_PORT
from pystate.common.key_groups import operator_index
from pystate.common.type_info import TypeInformation
from pystate.core.api.state import StateDescriptor
from pystate.core.queryable.kv_state_location import KvStateLocation
from pystate.core.queryable.kv_state_messages import (
    Consistency,
    QueryableState,
    QueryOutcome,
    StateAnswer,
    StateRead,
    StateVersion,
)
from pystate.core.queryable.proxy.kv_state_client_proxy import KvStateClientProxy
from pystate.core.queryable.proxy.proxy_security import ProxySecurity
from pystate.core.queryable.server.answer_room import AnswerRoom
from pystate.core.queryable.server.kv_state_server import KvStateServer
from pystate.core.state.base.state_schema import StateSchema
from pystate.core.state.keys.keys import KeyCodec
from pystate.core.state.keys.namespaces import VOID, NamespaceSerializer
from pystate.queryable.client import QueryableStateClient
from tests.waiting import LONGEST_S

JOB = "5" * 32
TOKEN = "a token of the toys' home"
MAX_PARALLELISM = 128

Address = tuple[str, bytes, bytes | None]


class ToyRegistry:
    """Answers a slot's reads.

    Attributes:
        values: By name, key and namespace, as bytes.
        versions: Of what it answers.
        before: Called with the reads of each request.
    """

    def __init__(self) -> None:
        self.values: dict[Address, Any] = {}
        self.versions = {
            Consistency.LIVE: StateVersion(7, None, 7_000),
            Consistency.CHECKPOINTED: StateVersion(5, 3, 5_000),
        }
        self.before: Callable[[list[StateRead]], object] = lambda reads: None
        self.requests: deque[list[StateRead]] = deque(maxlen=1000)

    def states(self) -> list[QueryableState]:
        return []

    def read(self, consistency: Consistency, reads: list[StateRead]) -> list[StateAnswer]:
        self.requests.append(reads)
        self.before(reads)
        version, room = self.versions[consistency], AnswerRoom()
        return [_bounded(self._answer(read, version), room) for read in reads]

    def _answer(self, read: StateRead, version: StateVersion) -> StateAnswer:
        value = self.values.get((read.name, read.key, read.namespace))
        if value is None:
            return StateAnswer(QueryOutcome.NO_VALUE, version=version)
        if isinstance(value, bytes):
            return StateAnswer(QueryOutcome.OK, value, None, version)
        start = 0 if read.cursor is None else int(read.cursor)
        if read.prefix is not None:
            value = [pair for pair in value if pair[0].startswith(read.prefix)]
        stop = start + read.limit
        cursor = str(stop).encode() if stop < len(value) else None
        return StateAnswer(QueryOutcome.OK, value[start:stop], cursor, version)


def _bounded(answer: StateAnswer, room: AnswerRoom) -> StateAnswer:
    if not isinstance(answer.value, bytes) or room.take(len(answer.value)):
        return answer
    assert answer.version is not None
    return room.refusal(len(answer.value), answer.version)


@dataclass
class ToyJob:
    """A job of toy slots, which is its own registry of locations.

    Attributes:
        slots: Their registries; a subtask each.
        known: The queryable states by name.
        serving: Whether an attempt runs.
        is_restored: Whether that has started from a checkpoint.
    """

    parallelism: int = 2
    secret: bytes = b"the secret of the job, 32 bytes "
    attempt: int = 0
    serving: bool = True
    is_restored: bool = False
    known: dict[str, QueryableState] = field(default_factory=dict)
    slots: list[ToyRegistry] = field(default_factory=list)
    servers: list[KvStateServer] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.begin_attempt(self.parallelism)

    def begin_attempt(self, parallelism: int) -> None:
        """Start slots anew; the values of the last ones are handed out among them."""
        self.end_attempt()
        entries = [entry for slot in self.slots for entry in slot.values.items()]
        self.parallelism, self.attempt = parallelism, self.attempt + 1
        self.slots = [ToyRegistry() for _ in range(parallelism)]
        self.servers = [
            KvStateServer(slot, self.secret, host="127.0.0.1", ports=ANY_PORT)  # type: ignore[arg-type]
            for slot in self.slots
        ]
        for server in self.servers:
            server.start()
        for address, value in entries:
            self.slots[self.index(address[1])].values[address] = value
        self.serving = True

    def end_attempt(self) -> None:
        self.serving = False
        for server in self.servers:
            server.close()

    def declare(
        self,
        name: str,
        descriptor: StateDescriptor,
        key_type: TypeInformation | None,
        namespaces: NamespaceSerializer = VOID,
    ) -> StateSchema:
        schema = StateSchema.of(descriptor, namespaces)
        meta_info = schema.meta_info(descriptor.name)
        self.known[name] = QueryableState(name, "an operator", key_type, MAX_PARALLELISM, meta_info)
        return schema

    def put(self, name: str, key: Any, value: Any, namespace: Any = None) -> None:
        """Set what the slot of a key answers: bytes, or a list of them."""
        state = self.known[name]
        codec, namespaces = KeyCodec(state.key_type), state.schema.namespaces
        data = codec.encode(codec.internal(key))
        where = None if namespaces.is_void else namespaces.encode(namespaces.internal(namespace))
        self.slots[self.index(data)].values[name, data, where] = value

    def index(self, key: bytes) -> int:
        codec = KeyCodec()
        group = codec.key_group(codec.decode(key), MAX_PARALLELISM)
        return operator_index(group, self.parallelism, MAX_PARALLELISM)

    def states(self) -> list[QueryableState]:
        return list(self.known.values())

    def locate(self, name: str) -> KvStateLocation | QueryOutcome:
        if not self.serving:
            return QueryOutcome.NOT_SERVING
        if name not in self.known:
            return QueryOutcome.UNKNOWN_STATE
        addresses = tuple(server.address for server in self.servers)
        return KvStateLocation(self.known[name], self.attempt, self.secret, addresses, self.is_restored)


@contextmanager
def toy_proxy(job: ToyJob, security: ProxySecurity | None = None, **options: Any) -> Iterator[KvStateClientProxy]:
    """Run a proxy before toy slots."""
    options = {"ports": ANY_PORT, **options}
    proxy = KvStateClientProxy(JOB, job, security or ProxySecurity((TOKEN,)), **options)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.close()
        job.end_attempt()


@contextmanager
def toy_client(proxy: KvStateClientProxy, **options: Any) -> Iterator[QueryableStateClient]:
    """Connect a client to a proxy."""
    with QueryableStateClient(*proxy.address, **{"token": TOKEN, "timeout": 20.0, **options}) as client:
        yield client


class Gate:
    """Holds up whoever calls it until it is opened."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self._open = threading.Event()

    def __call__(self, *_: Any) -> None:
        self.entered.set()
        assert self._open.wait(LONGEST_S)

    def open(self) -> None:
        self._open.set()
