"""What the models of states and of timers share: epochs, snapshots and restores against a model that is copied with them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from pystate.core.state.base.backend_snapshot import KeyedStateSnapshot
from pystate.core.state.base.loader import state_backend_names
from tests.core.state.conftest import BackendHarness, written


class EpochMachine(RuleBasedStateMachine):
    """Runs epochs on a backend; `running` is the model of the running epoch, `flushed` that of the last one."""

    backend_name = ""
    settings: Mapping[str, str] = {}
    most_open = 3

    def __init__(self, empty: Any) -> None:
        super().__init__()
        self.harness = BackendHarness(self.backend_name, settings=self.settings)
        self.flushed: Any = empty
        self.running: Any = copy.deepcopy(empty)
        self.open: list[tuple[list[KeyedStateSnapshot], Any]] = []

    def compare(self, harness: BackendHarness, model: Any) -> None:
        """Check that a harness has what a model has."""
        raise NotImplementedError

    def end_epoch(self) -> None:
        """Check what must no longer work after an epoch."""

    def go_on(self) -> None:
        """Take note of another harness."""

    @rule()
    def flush(self) -> None:
        self.harness.flush()
        self.flushed = copy.deepcopy(self.running)
        self.end_epoch()

    @rule()
    def rollback(self) -> None:
        self.harness.rollback()
        self.running = copy.deepcopy(self.flushed)
        self.end_epoch()

    @precondition(lambda self: len(self.open) < self.most_open)
    @rule(flush=st.booleans())
    def take_snapshot(self, flush: bool) -> None:
        if flush:
            self.flush()
        self.open.append((self.harness.snapshot(), copy.deepcopy(self.flushed)))

    @precondition(lambda self: self.open)
    @rule(
        which=st.integers(0, 2),
        parallelism=st.sampled_from([1, 2, 3]),
        go_on=st.booleans(),
        backend_name=st.sampled_from(state_backend_names()),
    )
    def restore(self, which: int, parallelism: int, go_on: bool, backend_name: str) -> None:
        snapshots, model = self.open.pop(which % len(self.open))
        files = [written(snapshot) for snapshot in snapshots]
        self.compare(self.harness.restored(files, parallelism, backend_name), model)
        if not go_on:
            return
        restored = self.harness.restored(files, parallelism)
        for others, _ in self.open:
            for snapshot in others:
                snapshot.release()
        self.open.clear()
        self.harness = restored
        self.flushed, self.running = model, copy.deepcopy(model)
        self.go_on()

    def teardown(self) -> None:
        self.flush()
        self.compare(self.harness, self.flushed)
        for snapshots, model in self.open:
            self.compare(self.harness.restored([written(snapshot) for snapshot in snapshots]), model)
