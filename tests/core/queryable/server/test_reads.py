"""What a slot answers: which version, which key groups, and what is wrong with a request."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pystate.common import Types
from pystate.common.errors import ControlError, StateDeclarationError
from pystate.common.key_groups import KeyGroupRange
from pystate.common.processes.control import ControlClient
from pystate.common.time import Time
from pystate.core.queryable.kv_state_messages import (
    MAX_ANSWER_BYTES,
    Consistency,
    QueryableState,
    QueryOutcome,
    StateAnswer,
    StateRead,
)
from pystate.core.queryable.server.kv_state_registry import KvStateRegistry
from pystate.core.queryable.server.kv_state_server import KvStateServer
from pystate.core.state.base import committed_states
from pystate.core.state.base.loader import create_state_backend
from pystate.core.state.keys.keys import KeyCodec
from pystate.datastream import KeyedProcessFunction, ListStateDescriptor, StateTtlConfig, ValueStateDescriptor
from tests.core.queryable.server.harness import ENABLED, QueriedSlot, queryable, word_of
from tests.runtime.slot.harness import MAX_PARALLELISM, SlotHarness

BACKENDS = ["hashmap", "rocksdb"]


@pytest.fixture(params=BACKENDS)
def slot(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[QueriedSlot]:
    queried = QueriedSlot(tmp_path, state_backend=request.param)
    yield queried
    queried.close()


def test_live_is_the_last_finished_epoch_and_never_a_part_of_one(slot: QueriedSlot) -> None:
    assert slot.ask("a").outcome is QueryOutcome.NO_VALUE
    slot.slot.bring(0, ["a", "a"])
    assert slot.count("a") is None, "all rows are in, but Spark may still want them again"
    slot.slot.finish(0)
    assert slot.count("a") == 2
    slot.slot.run_epoch(1, ["a"])
    answer = slot.ask("a")
    assert slot.count("a") == 3
    assert answer.version is not None
    assert (answer.version.epoch, answer.version.checkpoint_id) == (1, None)
    assert answer.version.timestamp > 0


def test_checkpointed_is_what_the_job_would_go_back_to(slot: QueriedSlot) -> None:
    before = slot.ask("a", live=False)
    assert before.outcome is QueryOutcome.NO_VALUE
    assert before.version is not None
    assert (before.version.epoch, before.version.checkpoint_id) == (-1, None)
    slot.slot.run_epoch(0, ["a"], barrier=slot.barrier(1, 0))
    assert slot.count("a", live=False) is None, "the checkpoint isn't complete"
    slot.slot.run_epoch(1, ["a"])
    slot.ended(1)
    assert slot.count("a", live=False) == 1
    assert slot.count("a") == 2
    version = slot.ask("a", live=False).version
    assert version is not None
    assert (version.epoch, version.checkpoint_id, version.timestamp) == (0, 1, 1_001)
    slot.slot.run_epoch(2, ["a"])
    assert slot.count("a", live=False) == 1


def test_a_checkpoint_that_fails_and_a_savepoint_change_nothing(slot: QueriedSlot) -> None:
    slot.slot.run_epoch(0, ["a"], barrier=slot.barrier(1, 0))
    slot.ended(1)
    slot.slot.run_epoch(1, ["a"], barrier=slot.barrier(2, 1))
    slot.ended(2, completed=False)
    slot.slot.run_epoch(2, ["a"], barrier=slot.barrier(3, 2, savepoint=True))
    slot.ended(3)
    assert slot.count("a", live=False) == 1
    slot.slot.run_epoch(3, ["a"], barrier=slot.barrier(4, 3))
    slot.slot.run_epoch(4, ["a"], barrier=slot.barrier(5, 4))
    slot.ended(5)
    slot.ended(4)  # late, and older than what is known
    assert slot.count("a", live=False) == 5


def test_an_epoch_that_is_rolled_back_is_never_seen(slot: QueriedSlot) -> None:
    slot.slot.run_epoch(0, ["a"])
    with pytest.raises(Exception, match=r"."):
        slot.slot.run_epoch(1, ["a", "poison"])
    assert slot.count("a") == 1


def test_a_restored_slot_shows_the_checkpoint_it_starts_from(slot: QueriedSlot, tmp_path: Path) -> None:
    from tests.runtime.engines.micro_batch.slot.test_epoch_transaction import restored_from

    barrier = slot.barrier(7, 0)
    slot.slot.run_epoch(0, ["a", "a"], barrier=barrier)
    restored = QueriedSlot(
        tmp_path,
        restored=restored_from((slot.slot, barrier)),
        checkpoint_id=7,
        checkpoint_timestamp=1_007,
        finished_epoch=0,
        name="r",
    )
    for live in (True, False):
        assert restored.count("a", live=live) == 2
        version = restored.ask("a", live=live).version
        assert version is not None
        assert version.timestamp == 1_007, "state doesn't get newer by being restored"
    version = restored.ask("a", live=False).version
    assert version is not None
    assert (version.epoch, version.checkpoint_id) == (0, 7)
    restored.close()


def test_all_of_a_request_is_of_one_version_while_epochs_go_on(slot: QueriedSlot) -> None:
    reads = [StateRead("counts", slot.key(word)) for word in "ab"] + [StateRead("marks", slot.key(word)) for word in "ab"]
    torn: list[Any] = []
    asked = [0]
    ended = threading.Event()

    def ask() -> None:
        read = slot.state().schema.values.deserialize
        while not ended.is_set():
            for live in (True, False):
                one, two, marks_one, marks_two = slot.ask_for(reads, live=live)
                found = [0 if answer.value is None else read(answer.value) for answer in (one, two)]
                marks = [len(answer.value or ()) for answer in (marks_one, marks_two)]
                versions = {answer.version for answer in (one, two, marks_one, marks_two)}
                if found != marks or found[0] != found[1] or len(versions) != 1:
                    torn.append((found, marks, versions))
            asked[0] += 1

    reader = threading.Thread(target=ask)
    reader.start()
    epoch = 0
    while (asked[0] < 60 or epoch < 20) and not torn:
        carries = epoch % 3 == 0
        slot.slot.run_epoch(epoch, ["a", "b"], barrier=slot.barrier(epoch, epoch) if carries else None)
        if carries:
            slot.ended(epoch)
        epoch += 1
    ended.set()
    reader.join()
    assert not torn


def test_six_answers_that_a_program_can_tell_apart(slot: QueriedSlot) -> None:
    slot.slot.run_epoch(0, ["a"])
    long_key = KeyCodec(Types.LONG())
    reads = [
        StateRead("counts", slot.key("a")),
        StateRead("nothing", slot.key("a")),
        StateRead("counts", slot.key("b")),
        StateRead("counts", long_key.encode(long_key.internal(1))),
        StateRead("counts", b"\xff"),
        StateRead("counts", slot.key("a"), namespace=b"\x01a"),
    ]
    outcomes = [answer.outcome for answer in slot.ask_for(reads)]
    assert outcomes == [
        QueryOutcome.OK,
        QueryOutcome.UNKNOWN_STATE,
        QueryOutcome.NO_VALUE,
        QueryOutcome.WRONG_KEY_TYPE,
        QueryOutcome.WRONG_KEY_TYPE,
        QueryOutcome.WRONG_NAMESPACE,
    ]


def test_a_slot_answers_for_its_key_groups_only(tmp_path: Path) -> None:
    slot = QueriedSlot(tmp_path, index=1, parallelism=2)
    assert slot.ask(word_of(1, 2)).outcome is QueryOutcome.NO_VALUE
    assert slot.ask(word_of(0, 2)).outcome is QueryOutcome.NOT_SERVING
    slot.close()
    assert slot.ask(word_of(1, 2)).outcome is QueryOutcome.NOT_SERVING


def test_a_map_comes_in_pages_of_one_version(slot: QueriedSlot, monkeypatch: pytest.MonkeyPatch) -> None:
    slot.slot.run_epoch(0, ["a"] * 10)
    user_keys = slot.state("marks").schema.user_keys
    assert user_keys is not None
    first = slot.ask("a", name="marks", limit=4)
    slot.slot.run_epoch(1, ["a"] * 10)
    slot.slot.run_epoch(2, ["a"] * 10)
    second = slot.ask("a", name="marks", limit=4, cursor=first.cursor)
    third = slot.ask("a", name="marks", limit=4, cursor=second.cursor)
    shown = [user_keys.external(user_keys.decode(key)) for page in (first, second, third) for key, _ in page.value]
    assert sorted(shown) == [f"{n:04}" for n in range(1, 11)]
    assert third.cursor is None
    assert len(slot.ask("a", name="marks").value) == 30
    monkeypatch.setattr(committed_states, "PINNED_SECONDS", -1.0)
    again = slot.ask("a", name="marks", limit=4)
    slot.slot.run_epoch(3, ["a"])
    slot.slot.run_epoch(4, ["a"])
    assert slot.ask("a", name="marks", limit=4, cursor=again.cursor).outcome is QueryOutcome.VERSION_GONE
    assert slot.ask("a", name="marks", cursor=b"no cursor").outcome is QueryOutcome.VERSION_GONE


def test_a_prefix_narrows_a_map(slot: QueriedSlot) -> None:
    slot.slot.run_epoch(0, ["a"] * 12)
    user_keys = slot.state("marks").schema.user_keys
    assert user_keys is not None
    answer = slot.ask("a", name="marks", prefix=user_keys.encode("001"))
    assert [user_keys.external(user_keys.decode(key)) for key, _ in answer.value] == ["0010", "0011", "0012"]


class Expiring(KeyedProcessFunction):
    """Keeps a value and a list for a second."""

    def open(self, runtime_context):
        config = StateTtlConfig.new_builder(Time.seconds(1)).build()
        value = queryable(ValueStateDescriptor("value", Types.STRING()), "values")
        elements = queryable(ListStateDescriptor("list", Types.STRING()), "lists")
        value.enable_time_to_live(config)
        elements.enable_time_to_live(config)
        self.value, self.elements = runtime_context.get_state(value), runtime_context.get_list_state(elements)

    def process_element(self, value, ctx):
        self.value.update(value)
        self.elements.add(value)
        return ()


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_has_expired_by_now_is_no_value(tmp_path: Path, backend: str) -> None:
    slot = QueriedSlot(tmp_path, Expiring(), state_backend=backend)
    slot.slot.run_epoch(0, ["a"])
    now = slot.ask("a", name="values")
    assert slot.state("values").schema.values.deserialize(now.value) == "a"
    assert [slot.state("lists").schema.values.deserialize(one) for one in slot.ask("a", name="lists").value] == ["a"]
    later = KvStateRegistry(clock=lambda: 1 << 42)
    assert slot.slot.subtask.versions is not None
    assert slot.slot.subtask.chain.backend is not None
    later.add("count", slot.slot.subtask.chain.backend, slot.slot.subtask.versions)
    for name in ("values", "lists"):
        (answer,) = later.read(Consistency.LIVE, [StateRead(name, slot.key("a"))])
        assert answer.outcome is QueryOutcome.NO_VALUE
    slot.close()


def test_two_operators_may_not_have_a_state_of_one_name() -> None:
    registry = KvStateRegistry()
    backends = [
        create_state_backend(
            "hashmap",
            key_codec=KeyCodec(Types.STRING()),
            key_group_range=KeyGroupRange(0, MAX_PARALLELISM - 1),
            max_parallelism=MAX_PARALLELISM,
        )
        for _ in range(2)
    ]
    for backend in backends:
        backend.get_partitioned_state(queryable(ValueStateDescriptor("count", Types.LONG()), "counts"))
    registry.add("one", backends[0], committed_states.CommittedStates(backends[0].committed_view))
    with pytest.raises(StateDeclarationError, match="'counts': 'count' of one and 'count' of two"):
        registry.add("two", backends[1], committed_states.CommittedStates(backends[1].committed_view))


def test_a_slot_of_a_job_that_is_not_queried_keeps_no_versions(tmp_path: Path) -> None:
    slot = SlotHarness(tmp_path)
    assert slot.subtask.versions is None
    slot.close()
    assert ENABLED


class TestServer:
    """The same over a connection."""

    @pytest.fixture
    def client(self, slot: QueriedSlot) -> Iterator[ControlClient]:
        server = KvStateServer(slot.registry, b"secret", host="127.0.0.1", ports=range(29_067, 29_068))
        server.start()
        client = ControlClient(*server.address, b"secret")
        yield client
        client.close()
        server.close()

    def test_states_and_values_travel(self, slot: QueriedSlot, client: ControlClient) -> None:
        slot.slot.run_epoch(0, ["a", "a"])
        states = [QueryableState.from_plain(plain) for plain in client.call("states")]
        assert sorted(state.name for state in states) == ["counts", "marks"]
        assert states == slot.registry.states()
        read = StateRead("counts", slot.key("a"))
        (plain,) = client.call("read", consistency="live", reads=[read.to_plain()])
        answer = StateAnswer.from_plain(plain)
        assert states[0].key_type == Types.STRING()
        assert slot.state().schema.values.deserialize(answer.value) == 2

    @pytest.mark.parametrize(
        "request_",
        [
            {},
            {"consistency": "dirty", "reads": []},
            {"consistency": "live"},
            {"consistency": "live", "reads": []},
            {"consistency": "live", "reads": "counts"},
            {"consistency": "live", "reads": [["counts"]]},
            {"consistency": "live", "reads": [["counts", "a", None, 1, None, None]]},
            {"consistency": "live", "reads": [["counts", b"", None, 1, None, None]]},
            {"consistency": "live", "reads": [["counts", b"a", None, 0, None, None]]},
            {"consistency": "live", "reads": [["counts", b"a", None, True, None, None]]},
            {"consistency": "live", "reads": [["counts", b"a", None, 1 << 40, None, None]]},
        ],
    )
    def test_what_is_no_request_is_refused_and_the_next_is_answered(
        self, slot: QueriedSlot, client: ControlClient, request_: dict[str, Any]
    ) -> None:
        with pytest.raises(ControlError, match="no request for state"):
            client.call("read", **request_)
        (plain,) = client.call("read", consistency="live", reads=[StateRead("counts", slot.key("a")).to_plain()])
        assert StateAnswer.from_plain(plain).outcome is QueryOutcome.NO_VALUE

    def test_what_is_too_large_is_left_out_and_the_rest_comes(self, tmp_path: Path) -> None:
        class Large(KeyedProcessFunction):
            def open(self, runtime_context):
                self.value = runtime_context.get_state(queryable(ValueStateDescriptor("value", Types.STRING()), "counts"))

            def process_element(self, value, ctx):
                self.value.update(value * (MAX_ANSWER_BYTES - 100))
                return ()

        slot = QueriedSlot(tmp_path, Large(), name="large")
        slot.slot.run_epoch(0, ["a", "b"])
        server = KvStateServer(slot.registry, b"secret", host="127.0.0.1", ports=range(29_067, 29_068))
        server.start()
        client = ControlClient(*server.address, b"secret")
        reads = [StateRead("counts", slot.key(word)).to_plain() for word in "abc"]
        answers = [StateAnswer.from_plain(plain) for plain in client.call("read", consistency="live", reads=reads)]
        assert [answer.outcome for answer in answers] == [QueryOutcome.OK, QueryOutcome.TOO_LARGE, QueryOutcome.NO_VALUE]
        client.close()
        server.close()
        slot.close()

    def test_the_next_free_port_is_taken(self, slot: QueriedSlot) -> None:
        servers = [KvStateServer(slot.registry, b"secret", host="127.0.0.1", ports=range(29_067, 29_068)) for _ in range(3)]
        assert len({server.address for server in servers}) == 3
        with pytest.raises(ControlError, match="None of the ports"):
            KvStateServer(
                slot.registry, b"secret", host="127.0.0.1", ports=range(servers[0].address[1], servers[1].address[1] + 1)
            )
        for server in servers:
            server.close()
