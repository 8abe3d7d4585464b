"""What tests of state backends share: a harness that drives a backend as the slot does."""

from __future__ import annotations

import io
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

import pytest

from pystate.common import TypeInformation
from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.pystate_options import PystateOptions
from pystate.common.key_groups import KeyGroupRange, key_group_range
from pystate.common.time import current_time_ms
from pystate.core.api.state import StateDescriptor, StateKind, ValueState, ValueStateDescriptor
from pystate.core.snapshot.reading.state_rows import RowDecoder
from pystate.core.state.base.backend_snapshot import KeyedStateSnapshot
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.core.state.base.loader import create_state_backend, state_backend_names
from pystate.core.state.files.canonical import CanonicalReader, StateMetaInfoSnapshot
from pystate.core.state.keys.keys import KeyCodec

MAX_PARALLELISM = 16

SPILLING = "rocksdb, spilling"
"""The rocksdb backend with so little memory for an epoch that it goes to disk whenever a test takes up another key."""


def backends_to_test() -> tuple[str, ...]:
    """Return what the contract is tested with: all backends, and those that spill."""
    return (*state_backend_names(), SPILLING)


class BackendHarness:
    """One operator at some parallelism: a backend per subtask, keys routed by their key group."""

    def __init__(
        self,
        backend_name: str,
        key_type: TypeInformation | None = None,
        parallelism: int = 1,
        clock: Callable[[], int] = current_time_ms,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.backend_name = backend_name
        self.settings = dict(settings or {})
        self.clock = clock
        self.codec = KeyCodec(key_type)
        self.parallelism = parallelism
        self.spills = 0
        self._folder = tempfile.mkdtemp(prefix="pystate-test-")
        self.backends = [self.new_backend(key_group_range(i, parallelism, MAX_PARALLELISM)) for i in range(parallelism)]

    def new_backend(self, key_groups: KeyGroupRange) -> KeyedStateBackend:
        spills = self.backend_name == SPILLING
        return create_state_backend(
            "rocksdb" if spills else self.backend_name,
            key_codec=self.codec,
            key_group_range=key_groups,
            max_parallelism=MAX_PARALLELISM,
            working_directory=self._folder,
            configuration=Configuration(
                {**self.settings, **({PystateOptions.STATE_EPOCH_MEMORY.key: "1 b"} if spills else {})}
            ),
            clock=self.clock,
        )

    def __del__(self) -> None:
        for backend in getattr(self, "backends", ()):
            backend.close()
        shutil.rmtree(self._folder)

    @property
    def backend(self) -> KeyedStateBackend:
        assert self.parallelism == 1
        return self.backends[0]

    def at(self, key: Any) -> KeyedStateBackend:
        """Make `key` current and return its backend; a backend that spills does so if it was another."""
        internal = self.codec.internal(key)
        group = self.codec.key_group(internal, MAX_PARALLELISM)
        (backend,) = (b for b in self.backends if group in b.key_group_range)
        if self.backend_name == SPILLING and internal != backend.key_context.active_key:
            backend.limit_epoch(1, 1)
            self.spills += 1
        backend.set_current_key(internal, group)
        return backend

    def state(self, key: Any, name: str = "s", type_info: TypeInformation | None = None) -> Any:
        """Make `key` current and return a value state for it."""
        state = self.at(key).get_partitioned_state(ValueStateDescriptor(name, type_info))
        assert isinstance(state, ValueState)
        return state

    def use(self, key: Any, descriptor: StateDescriptor) -> Any:
        """Make `key` current and return the declared state for it."""
        return self.at(key).get_partitioned_state(descriptor)

    def entry_count(self) -> int:
        return sum(backend.entry_count() for backend in self.backends)

    def flush(self) -> None:
        for backend in self.backends:
            backend.flush_epoch()

    def rollback(self) -> None:
        for backend in self.backends:
            backend.rollback_epoch()

    def snapshot(self) -> list[KeyedStateSnapshot]:
        return [backend.snapshot() for backend in self.backends]

    def save(self) -> list[bytes]:
        """Snapshot, write, release."""
        return [written(snapshot) for snapshot in self.snapshot()]

    def restored(
        self, files: Iterable[bytes], parallelism: int | None = None, backend_name: str | None = None
    ) -> BackendHarness:
        """Return a new harness of the same key type with the state of the files."""
        files = list(files)
        name, key_type = backend_name or self.backend_name, self.codec.key_type
        harness = BackendHarness(name, key_type, parallelism or self.parallelism, self.clock, self.settings)
        for backend in harness.backends:
            backend.restore(io.BytesIO(data) for data in files)
        return harness


def written(snapshot: KeyedStateSnapshot) -> bytes:
    """Write a snapshot and release it."""
    sink = io.BytesIO()
    try:
        stats = snapshot.write_canonical(sink)
    finally:
        snapshot.release()
    assert stats.bytes == len(sink.getvalue())
    return sink.getvalue()


class ManualClock:
    """Shows what it was set to, ms since 1970."""

    def __init__(self, now: int = 1_000) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


@pytest.fixture(params=backends_to_test())
def backend_name(request: pytest.FixtureRequest) -> str:
    """Return each backend's name in turn."""
    return str(request.param)


@pytest.fixture
def harness(backend_name: str) -> BackendHarness:
    """Return a harness with untyped keys at parallelism 1."""
    return BackendHarness(backend_name)


def stored(
    reader: CanonicalReader, info: StateMetaInfoSnapshot, codec: KeyCodec, key_group: int
) -> Iterator[tuple[Any, Any]]:
    """Yield (key, what a file holds for it): a value, an accumulator, a list, or (map key, value) for each map entry."""
    decoder = RowDecoder(info, codec.key_type)
    rows = decoder.rows(key_group, reader.entries(info.name, key_group))
    for _, of_key in groupby(rows, lambda row: row.key_bytes):
        found = list(of_key)
        if decoder.kind is StateKind.LIST:
            yield found[0].key, [row.value for row in found]
        elif decoder.kind is StateKind.MAP:
            yield from ((row.key, (row.sub_key, row.value)) for row in found)
        else:
            yield from ((row.key, row.value) for row in found)
