"""The proxy and the client together, before toy slots."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import ControlError, PystateError, StateError
from pystate.common.files.home import PystateHome
from pystate.common.processes.control import connect
from pystate.common.processes.internal_certificate import connection_secret
from pystate.common.processes.tls_session import pem_of, secret_with
from pystate.common.typeinfo import Types
from pystate.core.api.functions import AggregateFunction
from pystate.core.api.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from pystate.core.queryable.kv_state_location import key_of_reads
from pystate.core.queryable.kv_state_messages import Consistency, QueryOutcome, StateAnswer, StateVersion
from pystate.core.queryable.proxy.kv_state_client_proxy import KvStateClientProxy, start_proxy
from pystate.core.queryable.proxy.proxy_security import ProxySecurity
from pystate.core.queryable.query_errors import (
    AnswerTooLargeError,
    BadQueryError,
    ProxyUnreachableError,
    QueriesOverloadedError,
    QueryForbiddenError,
    UnknownJobError,
    UnknownKeyOrNamespaceError,
    UnknownKvStateLocationError,
    UnknownLocationError,
    VersionGoneError,
    WrongKeyTypeError,
    WrongNamespaceError,
    WrongStateTypeError,
)
from pystate.core.state.keys.namespaces import TIME_WINDOWS
from pystate.queryable.client import QueryableStateClient
from pystate.queryable.requests import KvStateRequest
from tests.core.queryable.proxy.toy_slots import JOB, TOKEN, Gate, ToyJob, toy_client, toy_proxy
from tests.servers.certificate import certificate
from tests.waiting import LONGEST_S, wait_until

__all__ = ["certificate"]

ENCRYPTED = Configuration({"security.ssl.internal.enabled": "true"})
SUMS = ValueStateDescriptor("sum", Types.LONG())


def job_of_sums(parallelism: int = 2, keys: int = 20) -> ToyJob:
    job = ToyJob(parallelism)
    schema = job.declare("sums", SUMS, Types.STRING())
    for number in range(keys):
        job.put("sums", f"k{number}", schema.values.serialize(number))
    return job


def asked(client, *args, **kwargs):
    return client.get_kv_state(*args, **kwargs).result(LONGEST_S)


def test_a_proxy_reads_from_slots_that_encrypt():
    """Requests that come together with a proof are answered, and so are answers of many records of TLS."""
    secret = key_of_reads(connection_secret(ENCRYPTED))
    job = ToyJob(2, secret)
    schema = job.declare("sums", SUMS, Types.STRING())
    texts = job.declare("texts", ValueStateDescriptor("text", Types.STRING()), Types.STRING())
    for number in range(20):
        job.put("sums", f"k{number}", schema.values.serialize(number))
        job.put("texts", f"k{number}", texts.values.serialize(f"{number}" * 100_000))
    with toy_proxy(job, offers_slots=False) as proxy, toy_client(proxy) as client:
        assert [asked(client, JOB, "sums", f"k{number}").value() for number in range(20)] == list(range(20))
        many = [client.get_kv_state(JOB, "texts", f"k{number}") for number in range(20)]
        assert [one.result(LONGEST_S).value() for one in many] == [f"{number}" * 100_000 for number in range(20)]
        with pytest.raises(ControlError):
            connect(
                job.servers[0].address, secret_with(secret[:32], pem_of(connection_secret(ENCRYPTED))), timeout=LONGEST_S
            )


def test_each_key_is_found_in_the_slot_that_has_it_with_the_version_that_it_is_of():
    job = job_of_sums(3)
    with toy_proxy(job) as proxy, toy_client(proxy) as client:
        found = [asked(client, JOB, "sums", f"k{number}") for number in range(20)]
        live = asked(client, JOB, "sums", "k1", consistency=Consistency.LIVE)
    assert [state.value() for state in found] == list(range(20))
    assert {(state.version.epoch, state.version.checkpoint_id) for state in found} == {(5, 3)}
    assert (live.version.epoch, live.version.checkpoint_id, live.version.timestamp) == (7, None, 7_000)
    assert live.version.age_ms > 0
    assert all(slot.requests for slot in job.slots)


def test_types_may_be_given_or_left_to_the_job_and_those_that_differ_are_refused():
    with toy_proxy(job_of_sums()) as proxy, toy_client(proxy) as client:
        assert asked(client, JOB, "sums", "k3", Types.STRING(), SUMS).value() == 3
        with pytest.raises(WrongKeyTypeError, match="STRING, not LONG"):
            asked(client, JOB, "sums", 3, Types.LONG())
        with pytest.raises(WrongKeyTypeError, match="STRING"):
            asked(client, JOB, "sums", 3)
        with pytest.raises(WrongStateTypeError, match="VALUE of LONG"):
            asked(client, JOB, "sums", "k3", Types.STRING(), ValueStateDescriptor("sum", Types.STRING()))
        with pytest.raises(WrongStateTypeError):
            asked(client, JOB, "sums", "k3", None, ListStateDescriptor("sum", Types.LONG()))


class Mean(AggregateFunction):
    def create_accumulator(self):
        return (0, 0)

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, one, other):
        return one[0] + other[0], one[1] + other[1]


def test_states_of_all_kinds_are_found_and_can_not_be_written():
    job = ToyJob(2)
    numbers = job.declare("list", ListStateDescriptor("list", Types.LONG()), Types.LONG())
    job.put("list", 1, [numbers.values.serialize(one) for one in (3, 1, 2)])
    words = job.declare("map", MapStateDescriptor("map", Types.STRING(), Types.LONG()), Types.LONG())
    keys = words.user_keys
    assert keys is not None
    pairs = [[keys.encode(word), words.values.serialize(value)] for word, value in (("a", 1), ("ab", None), ("b", 2))]
    job.put("map", 1, pairs)
    most = job.declare("most", ReducingStateDescriptor("most", max, Types.LONG()), Types.LONG())
    job.put("most", 1, most.values.serialize(9))
    mean = AggregatingStateDescriptor("mean", Mean(), Types.TUPLE([Types.LONG(), Types.LONG()]))
    schema = job.declare("mean", mean, Types.LONG())
    job.put("mean", 1, schema.values.serialize((6, 4)))
    with toy_proxy(job) as proxy, toy_client(proxy) as client:
        found = asked(client, JOB, "list", 1)
        assert found.get() == [3, 1, 2]
        assert list(found) == [3, 1, 2]
        entries = asked(client, JOB, "map", 1)
        assert dict(entries.items()) == {"a": 1, "ab": None, "b": 2}
        assert entries["a"] == 1
        assert "ab" in entries
        assert entries.get("none") is None
        assert list(asked(client, JOB, "map", 1, prefix="a").keys()) == ["a", "ab"]
        assert asked(client, JOB, "most", 1).get() == 9
        assert asked(client, JOB, "mean", 1).get() == (6, 4)
        assert asked(client, JOB, "mean", 1, None, mean).get() == 1.5
        writes = [found.clear, lambda: found.add(1), lambda: found.update([]), lambda: found.add_all([1])]
        writes += [entries.clear, lambda: entries.put("a", 2), lambda: entries.put_all({}), lambda: entries.remove("a")]
        for write in writes:
            with pytest.raises(StateError, match="can't be changed"):
                write()
        with pytest.raises(BadQueryError, match="no map keys"):
            asked(client, JOB, "list", 1, prefix="a")


def test_the_state_of_a_window_is_asked_for_with_the_window():
    job = ToyJob(2)
    counts = job.declare("counts", ValueStateDescriptor("counts", Types.LONG()), Types.STRING(), TIME_WINDOWS)
    job.put("counts", "a", counts.values.serialize(4), (0, 1000))
    with toy_proxy(job) as proxy, toy_client(proxy) as client:
        assert asked(client, JOB, "counts", "a", namespace=(0, 1000)).value() == 4
        with pytest.raises(UnknownKeyOrNamespaceError):
            asked(client, JOB, "counts", "a", namespace=(1000, 2000))
        for wrong in (None, "noon"):
            with pytest.raises(WrongNamespaceError):
                asked(client, JOB, "counts", "a", namespace=wrong)


def test_six_ways_to_have_no_answer_are_six_errors_each_with_a_next_step():
    job = job_of_sums()
    with toy_proxy(job) as proxy:
        with toy_client(proxy) as client:
            asks = {
                UnknownJobError: lambda: asked(client, "6" * 32, "sums", "k1"),
                UnknownKvStateLocationError: lambda: asked(client, JOB, "products", "k1"),
                UnknownKeyOrNamespaceError: lambda: asked(client, JOB, "sums", "nobody"),
                WrongKeyTypeError: lambda: asked(client, JOB, "sums", 1.5),
            }
            errors = []
            for kind, ask in asks.items():
                with pytest.raises(kind) as caught:
                    ask()
                errors.append(caught.value)
        job.end_attempt()
        with toy_client(proxy, timeout=0.3) as client, pytest.raises(UnknownLocationError) as restarting:
            asked(client, JOB, "sums", "k1")
        with toy_client(proxy, token="of another home") as client, pytest.raises(QueryForbiddenError) as forbidden:
            asked(client, JOB, "sums", "k1")
    errors += [restarting.value, forbidden.value]
    assert len({error.outcome for error in errors}) == 6
    assert all(error.hint for error in errors)
    assert all(isinstance(error, PystateError) for error in errors)


def test_many_keys_and_states_are_asked_for_at_once_and_answered_in_order_from_one_version():
    job = job_of_sums(3)
    names = job.declare("names", ValueStateDescriptor("name", Types.STRING()), Types.STRING())
    job.put("names", "k2", names.values.serialize("two"))
    with toy_proxy(job) as proxy, toy_client(proxy) as client:
        requests = [KvStateRequest("sums", f"k{number}") for number in (5, 99, 2, 7)] + [KvStateRequest("names", "k2")]
        found = client.get_kv_states(JOB, requests).result(LONGEST_S)
    assert [None if state is None else state.value() for state in found] == [5, None, 2, 7, "two"]
    assert len({state.version.checkpoint_id for state in found if state is not None}) == 1


def test_slots_that_are_a_checkpoint_after_are_asked_again_until_all_agree(monkeypatch):
    # on a busy machine two more answers may take longer than slots are given to agree
    monkeypatch.setattr("pystate.core.queryable.proxy.read_router._AGREE_SECONDS", LONGEST_S)
    job = job_of_sums(2)
    late, early = job.slots
    early.versions[Consistency.CHECKPOINTED] = StateVersion(9, 4, 9_000)
    seen = []

    def complete_later(_reads):
        seen.append(1)
        if len(seen) == 3:
            late.versions[Consistency.CHECKPOINTED] = StateVersion(9, 4, 9_000)

    late.before = complete_later
    with toy_proxy(job) as proxy, toy_client(proxy) as client:
        found = client.get_kv_states(JOB, [KvStateRequest("sums", f"k{number}") for number in range(20)]).result(LONGEST_S)
    assert {state.version.checkpoint_id for state in found if state is not None} == {4}
    assert len(early.requests) == 1
    assert len(seen) == 3


def test_a_list_comes_in_pages_and_as_a_whole():
    job = ToyJob(1)
    numbers = job.declare("list", ListStateDescriptor("list", Types.LONG()), Types.LONG())
    job.put("list", 1, [numbers.values.serialize(one) for one in range(25_000)])
    with toy_proxy(job) as proxy, toy_client(proxy) as client:
        assert asked(client, JOB, "list", 1).get() == list(range(25_000))
        request = KvStateRequest("list", 1)
        first = client.get_kv_state_page(JOB, request, limit=10).result(LONGEST_S)
        second = client.get_kv_state_page(JOB, request, limit=10, cursor=first.cursor).result(LONGEST_S)
        last = client.get_kv_state_page(JOB, request, limit=10, cursor=b"24990").result(LONGEST_S)
        with pytest.raises(BadQueryError, match="1 to 10000"):
            client.get_kv_state_page(JOB, request, limit=0).result(LONGEST_S)
    assert (first.get(), second.get()) == (list(range(10)), list(range(10, 20)))
    assert last.cursor is None


def test_a_value_that_is_larger_than_an_answer_is_too_large():
    job = ToyJob(1)
    texts = job.declare("text", ValueStateDescriptor("text", Types.STRING()), Types.LONG())
    job.put("text", 1, texts.values.serialize("x" * (17 << 20)))
    with toy_proxy(job) as proxy, toy_client(proxy) as client, pytest.raises(AnswerTooLargeError):
        asked(client, JOB, "text", 1)


def test_an_answer_that_is_too_large_only_beside_others_comes_alone():
    job = ToyJob(1)
    texts = job.declare("text", ValueStateDescriptor("text", Types.STRING()), Types.LONG())
    for key in range(4):
        job.put("text", key, texts.values.serialize(f"{key}" + "x" * (6 << 20)))
    gate = Gate()
    job.slots[0].before = lambda reads: gate() if not gate.entered.is_set() else None
    with toy_proxy(job) as proxy, toy_client(proxy) as client:
        first = client.get_kv_state(JOB, "text", 99)
        assert gate.entered.wait(LONGEST_S)
        # these wait for the slot, and go together
        others = [client.get_kv_state(JOB, "text", key) for key in range(4)]
        gate.open()
        assert isinstance(first.exception(LONGEST_S), UnknownKeyOrNamespaceError)
        assert [other.result(LONGEST_S).value()[0] for other in others] == ["0", "1", "2", "3"]


def test_a_cursor_of_a_version_that_is_gone_says_so_and_a_whole_map_begins_anew():
    job = ToyJob(1)
    numbers = job.declare("list", ListStateDescriptor("list", Types.LONG()), Types.LONG())
    job.put("list", 1, [numbers.values.serialize(one) for one in range(15_000)])
    slot, gone = job.slots[0], []
    answer = slot._answer

    def forgetful(read, version):
        if read.cursor is not None and len(gone) < 2:
            gone.append(read)
            return StateAnswer(QueryOutcome.VERSION_GONE)
        return answer(read, version)

    slot._answer = forgetful  # type: ignore[method-assign]
    with toy_proxy(job) as proxy, toy_client(proxy) as client:
        with pytest.raises(VersionGoneError):
            client.get_kv_state_page(JOB, KvStateRequest("list", 1), cursor=b"10").result(LONGEST_S)
        assert len(asked(client, JOB, "list", 1).get()) == 15_000
    assert len(gone) == 2


def test_a_query_waits_while_the_job_restarts_and_finds_the_key_in_the_slots_of_the_next_attempt():
    job = job_of_sums(2)
    with toy_proxy(job) as proxy, toy_client(proxy) as client:
        assert asked(client, JOB, "sums", "k1").value() == 1
        job.serving = False
        waiting = client.get_kv_state(JOB, "sums", "k1")
        job.begin_attempt(3)
        assert waiting.result(LONGEST_S).value() == 1
        assert [asked(client, JOB, "sums", f"k{number}").value() for number in range(20)] == list(range(20))


def test_a_slot_that_dies_in_the_middle_of_a_request_is_asked_no_more_and_the_query_goes_to_the_next_attempt():
    job = job_of_sums(1)
    gate = Gate()
    job.slots[0].before = gate
    with toy_proxy(job) as proxy, toy_client(proxy) as client:
        waiting = client.get_kv_state(JOB, "sums", "k1")
        assert gate.entered.wait(LONGEST_S)
        job.begin_attempt(2)
        assert asked(client, JOB, "sums", "k2").value() == 2  # a new attempt hangs up on the old slots
        assert waiting.result(LONGEST_S).value() == 1
        gate.open()


def test_a_client_goes_on_with_the_driver_that_takes_the_port_of_the_last_one():
    job = job_of_sums()
    with toy_proxy(job) as first, toy_client(first) as client:
        assert asked(client, JOB, "sums", "k1").value() == 1
        first.close()
        waiting = client.get_kv_state(JOB, "sums", "k2")
        port = first.address[1]
        with toy_proxy(job, ports=range(port, port + 1)) as second:
            assert second.address == first.address
            assert waiting.result(LONGEST_S).value() == 2


def test_where_nobody_listens_the_error_says_what_to_look_for():
    job = job_of_sums()
    with toy_proxy(job) as proxy:
        pass
    with toy_client(proxy, timeout=0.2) as client, pytest.raises(ProxyUnreachableError, match="No proxy") as caught:
        asked(client, JOB, "sums", "k1")
    assert "queryable-state.enable" in str(caught.value.hint)


def test_the_asynchronous_form_answers_the_same():
    with toy_proxy(job_of_sums()) as proxy, toy_client(proxy) as client:

        async def ask():
            one, many = await asyncio.gather(
                client.get_kv_state_async(JOB, "sums", "k1"),
                client.get_kv_states_async(JOB, [KvStateRequest("sums", "k2")]),
            )
            states = await client.get_queryable_states_async(JOB)
            page = await client.get_kv_state_page_async(JOB, KvStateRequest("sums", "k4"))
            return one.value(), many[0].value(), [state.name for state in states], page.value()

        assert asyncio.run(ask()) == (1, 2, ["sums"], 4)


def test_queries_of_many_threads_are_pipelined_and_a_busy_slot_is_asked_for_several_at_once():
    job = job_of_sums(1, keys=200)
    gate = Gate()
    job.slots[0].before = lambda reads: gate() if not gate.entered.is_set() else None
    with toy_proxy(job) as proxy, toy_client(proxy) as client, ThreadPoolExecutor(8) as pool:
        futures = [client.get_kv_state(JOB, "sums", "k0")]
        assert gate.entered.wait(LONGEST_S)
        futures += pool.map(lambda number: client.get_kv_state(JOB, "sums", f"k{number}"), range(1, 200))
        gate.open()
        assert [future.result(LONGEST_S).value() for future in futures] == list(range(200))
    assert len(job.slots[0].requests) < 200


def test_more_reads_a_second_than_the_option_allows_are_answered_as_overloaded():
    job = job_of_sums()
    with toy_proxy(job, reads_per_second=5) as proxy, toy_client(proxy, timeout=0.2, direct=False) as client:
        with pytest.raises(QueriesOverloadedError, match="a second"):
            for _ in range(100):
                with contextlib.suppress(UnknownLocationError):  # a busy machine may answer in more than that time
                    client.get_kv_states(JOB, [KvStateRequest("sums", "k1")] * 10).result(LONGEST_S)


def test_who_waits_for_an_overloaded_job_is_served_later():
    with toy_proxy(job_of_sums(), reads_per_second=50) as proxy, toy_client(proxy, direct=False) as client:
        found = [client.get_kv_states(JOB, [KvStateRequest("sums", "k1")] * 20).result(LONGEST_S) for _ in range(6)]
    assert len(found) == 6


def test_a_request_that_is_too_large_is_refused_before_it_is_sent_and_the_client_goes_on():
    with toy_proxy(job_of_sums()) as proxy, toy_client(proxy) as client:
        with pytest.raises(AnswerTooLargeError, match="request"):
            asked(client, JOB, "sums", "k" * (2 << 20))
        with pytest.raises(BadQueryError, match="10000 reads"):
            client.get_kv_states(JOB, [KvStateRequest("sums", "k")] * 10_001).result(LONGEST_S)
        assert asked(client, JOB, "sums", "k1").value() == 1


def test_tls_is_spoken_with_the_certificate_of_rest(tmp_path, certificate, monkeypatch):
    pem, key = certificate
    monkeypatch.setenv("PYSTATE_HOME", str(tmp_path))
    settings = {
        "security.ssl.rest.enabled": "true",
        "pystate.security.ssl.rest.certificate": pem,
        "pystate.security.ssl.rest.key": key,
    }
    security = ProxySecurity.of(PystateHome(), Configuration(settings))
    token = PystateHome().token.read_text().strip()
    with toy_proxy(job_of_sums(), security) as proxy:
        trusting = ssl.create_default_context(cafile=pem)
        with toy_client(proxy, token=token, tls=trusting) as client:
            assert asked(client, JOB, "sums", "k1").value() == 1
        with toy_client(proxy, token=token, timeout=0.2) as client, pytest.raises(ProxyUnreachableError):
            asked(client, JOB, "sums", "k1")


def test_the_token_of_the_home_and_that_of_the_token_file_are_both_proven(tmp_path, monkeypatch):
    monkeypatch.setenv("PYSTATE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PYSTATE_CONF_DIR", raising=False)
    file = tmp_path / "token"
    file.write_text("a-token-for-everybody\n")
    file.chmod(0o600)
    security = ProxySecurity.of(PystateHome(), Configuration({"pystate.rest.token-file": str(file)}))
    with toy_proxy(job_of_sums(), security) as proxy:
        with toy_client(proxy, token="a-token-for-everybody") as client:
            assert asked(client, JOB, "sums", "k1").value() == 1
        with QueryableStateClient(*proxy.address) as client:  # by PYSTATE_HOME
            assert asked(client, JOB, "sums", "k1").value() == 1


@dataclass
class OptionsOfJob:
    kv_states: ToyJob
    configuration: Configuration
    said: list[str] = field(default_factory=list)
    job_id: str = JOB

    def say(self, line: str) -> None:
        self.said.append(line)


def test_the_proxy_takes_the_next_free_port_and_says_where_it_listens(tmp_path):
    job, home = job_of_sums(), PystateHome(tmp_path)
    assert start_proxy(OptionsOfJob(job, Configuration({})), home) is None
    with toy_proxy(job) as taken:
        host, port = taken.address
        settings = {"queryable-state.enable": "true", "queryable-state.proxy.ports": str(port)}
        options = OptionsOfJob(job, Configuration(settings))
        proxy = start_proxy(options, home)
        assert isinstance(proxy, KvStateClientProxy)
        try:
            assert proxy.address[1] > port
            assert options.said == [f"Started Queryable State Proxy Server @ {host}:{proxy.address[1]}"]
        finally:
            proxy.close()


def test_an_address_that_other_machines_reach_without_tls_is_warned_of():
    assert "security.ssl.rest.enabled" in str(ProxySecurity((TOKEN,)).warning("0.0.0.0"))  # noqa: S104
    assert ProxySecurity((TOKEN,)).warning("127.0.0.1") is None


def test_a_client_that_hangs_up_leaves_nothing_behind():
    with toy_proxy(job_of_sums()) as proxy:
        with toy_client(proxy) as client:
            asked(client, JOB, "sums", "k1")
            assert proxy.connection_count == 1
        wait_until(lambda: proxy.connection_count == 0)
        with pytest.raises(PystateError, match="closed"):
            client.get_kv_state(JOB, "sums", "k1")
