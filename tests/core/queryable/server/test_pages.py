"""Maps and lists in pages: all of one version, each as large as an answer may be, and none of what another has asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pystate.common import Types
from pystate.common.time import Time
from pystate.core.queryable.kv_state_messages import MAX_ANSWER_BYTES, Consistency, QueryOutcome, StateAnswer, StateRead
from pystate.core.queryable.server import kv_state_entry
from pystate.core.queryable.server.kv_state_registry import KvStateRegistry
from pystate.datastream import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from tests.core.queryable.server.harness import QueriedSlot, queryable
from tests.runtime.slot.harness import UID

BACKENDS = ["hashmap", "rocksdb"]
LARGE = MAX_ANSWER_BYTES // 5


class Large(KeyedProcessFunction):
    """Of each key a count, and as many large texts in a list and in a map."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(queryable(ValueStateDescriptor("count", Types.LONG()), "counts"))
        self.texts = runtime_context.get_list_state(queryable(ListStateDescriptor("list", Types.STRING()), "texts"))
        self.named = runtime_context.get_map_state(
            queryable(MapStateDescriptor("map", Types.LONG(), Types.STRING()), "named")
        )
        self.one = runtime_context.get_list_state(queryable(ListStateDescriptor("one", Types.STRING()), "one"))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.texts.add(f"{count}" + "x" * LARGE)
        self.named.put(count, f"{count}" + "y" * LARGE)
        if count == 1:
            self.one.add("z" * (MAX_ANSWER_BYTES + 1))
        return ()


@pytest.fixture(params=BACKENDS)
def slot(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[QueriedSlot]:
    queried = QueriedSlot(tmp_path, Large(), state_backend=request.param)
    yield queried
    queried.close()


def pages_after(slot: QueriedSlot, first: StateAnswer, name: str, word: str) -> list[StateAnswer]:
    """Return a page with those that follow."""
    pages = [first]
    while pages[-1].cursor is not None:
        assert len(pages) < 20
        pages.append(slot.ask(word, name=name, cursor=pages[-1].cursor))
    return pages


def shown(slot: QueriedSlot, name: str, pages: list[StateAnswer]) -> list[str]:
    read = slot.state(name).schema.values.deserialize
    return sorted(read(one if isinstance(one, bytes) else one[1])[0] for page in pages for one in page.value)


@pytest.mark.parametrize("name", ["texts", "named"])
def test_a_page_ends_where_an_answer_is_full(slot: QueriedSlot, name: str) -> None:
    slot.slot.run_epoch(0, ["a"] * 7)
    pages = pages_after(slot, slot.ask("a", name=name), name, "a")
    assert [len(page.value) for page in pages] == [4, 3]
    assert shown(slot, name, pages) == list("1234567")


def test_what_has_no_room_beside_others_goes_on_in_their_version(slot: QueriedSlot) -> None:
    slot.slot.run_epoch(0, ["a"] * 7)
    names = ("counts", "texts", "named")
    answers = slot.ask_for([StateRead(name, slot.key("a")) for name in names])
    slot.slot.run_epoch(1, ["a"])
    for name, answer in zip(names[1:], answers[1:], strict=True):
        pages = pages_after(slot, answer, name, "a")
        assert {page.version for page in pages} == {answers[0].version}
        assert shown(slot, name, pages) == list("1234567")
    assert answers[2].value == []


def test_an_element_that_no_answer_has_room_for_is_too_large(slot: QueriedSlot) -> None:
    slot.slot.run_epoch(0, ["a"])
    answer = slot.ask("a", name="one")
    assert answer.outcome is QueryOutcome.TOO_LARGE
    assert f"an answer may have {MAX_ANSWER_BYTES}." in answer.message


def test_a_request_for_more_than_an_answer_may_have_reads_no_more_than_that(slot: QueriedSlot) -> None:
    slot.slot.run_epoch(0, ["a"] * 4)
    answers = slot.ask_for([StateRead("texts", slot.key("a"))] * 40)
    assert sum(len(one) for answer in answers for one in answer.value) < MAX_ANSWER_BYTES


def test_a_cursor_is_good_for_what_it_was_given_for_only(slot: QueriedSlot) -> None:
    slot.slot.run_epoch(0, ["a", "a", "a", "b", "b"])
    for name, other in (("texts", "named"), ("named", "texts")):
        cursor = slot.ask("a", name=name, limit=2).cursor
        assert len(slot.ask("a", name=name, cursor=cursor).value) == 1
        for answer in (slot.ask("a", name=other, cursor=cursor), slot.ask("b", name=name, cursor=cursor)):
            assert answer.outcome is QueryOutcome.BAD_REQUEST
            assert answer.message == "The cursor is that of another state, key, namespace or prefix."


def test_a_cursor_that_was_made_up_is_the_end(slot: QueriedSlot) -> None:
    slot.slot.run_epoch(0, ["a", "a", "a"])
    for name in ("texts", "named"):
        cursor = slot.ask("a", name=name, limit=1).cursor
        assert cursor is not None
        answer = slot.ask("a", name=name, cursor=cursor[:20] + b"\xff" * 40)
        assert (answer.outcome, answer.value, answer.cursor) == (QueryOutcome.OK, [], None)


class Expiring(KeyedProcessFunction):
    """Keeps the numbers of its elements, each for a second."""

    def open(self, runtime_context):
        elements = queryable(ListStateDescriptor("list", Types.STRING()), "lists")
        elements.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).build())
        self.elements = runtime_context.get_list_state(elements)
        self.number = 0

    def process_element(self, value, ctx):
        self.number += 1
        self.elements.add(str(self.number))
        return ()


@pytest.mark.parametrize("backend", BACKENDS)
def test_elements_that_expire_between_two_pages_hide_no_others(
    tmp_path: Path, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slot = QueriedSlot(tmp_path, Expiring(), state_backend=backend)
    slot.slot.run_epoch(0, ["a"] * 6)
    subtask = slot.slot.subtask
    assert subtask.versions is not None
    assert subtask.chain.backend is not None
    # each was written a second after the one before
    monkeypatch.setattr(kv_state_entry, "time_of_mark", lambda data: 1_000 * int(data[-1:]))
    now = [1_900]
    registry = KvStateRegistry(clock=lambda: now[0])
    registry.add(UID, subtask.chain.backend, subtask.versions)
    found: list[str] = []
    cursor: bytes | None = None
    for now[0] in (1_900, 3_100, 3_200):  # one and two expire after the first page
        (answer,) = registry.read(Consistency.LIVE, [StateRead("lists", slot.key("a"), limit=2, cursor=cursor)])
        found += map(slot.state("lists").schema.values.deserialize, answer.value)
        cursor = answer.cursor
    assert (found, cursor) == (list("123456"), None)
    slot.close()
