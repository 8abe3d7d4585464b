"""The order in which readers and the writer look, which chance meets too seldom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pystate.common import Types
from pystate.core.api.state import ValueStateDescriptor
from pystate.core.state.hashmap.hashmap_keyed_state_backend import HashMapKeyedStateBackend
from tests.core.state.conftest import MAX_PARALLELISM, BackendHarness


class Interrupted(dict[Any, Any]):
    """Does something behind the back of who has looked into it and found nothing."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        super().__init__()
        self.meanwhile: Callable[[], object] | None = meanwhile

    def get(self, key: Any, default: Any = None) -> Any:
        found = super().get(key, default)
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return found


def test_an_epoch_that_ends_between_two_looks_of_a_reader_is_not_seen() -> None:
    harness = BackendHarness("hashmap")
    descriptor = ValueStateDescriptor("value", Types.LONG())
    descriptor.set_queryable("values")
    harness.use("k", descriptor).update(1)
    harness.flush()
    backend = harness.backend
    assert isinstance(backend, HashMapKeyedStateBackend)
    view = backend.committed_view()

    def next_epoch() -> None:
        harness.use("k", descriptor).update(2)
        harness.flush()

    view.replaced["value"] = Interrupted(next_epoch)
    table = view.tables["value"].table
    table.replaced = view.replaced["value"]
    state = view.state("value")
    assert state is not None
    group = harness.codec.key_group("k", MAX_PARALLELISM)
    data = state.value("k", group)
    assert data is not None
    assert view.tables["value"].schema.values.deserialize(data) == 1
    assert table.get("k", group) == 2
    view.close()
