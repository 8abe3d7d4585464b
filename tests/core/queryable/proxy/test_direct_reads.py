"""Clients that ask slots themselves, and what they do where that doesn't work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pystate.common.errors import ControlError
from pystate.common.processes.control import ControlClient
from pystate.core.queryable import slot_channel
from pystate.core.queryable.kv_state_location import KvStateLocation, key_of_reads
from pystate.core.queryable.kv_state_messages import Consistency, QueryOutcome, StateAnswer
from pystate.core.queryable.proxy.kv_state_client_proxy import KvStateClientProxy
from pystate.core.queryable.query_errors import UnknownKeyOrNamespaceError
from pystate.queryable.client import QueryableStateClient
from pystate.queryable.requests import KvStateRequest
from tests.core.queryable.proxy.test_kv_state_client_proxy import asked, job_of_sums
from tests.core.queryable.proxy.toy_slots import JOB, TOKEN, ToyJob, toy_client, toy_proxy
from tests.waiting import LONGEST_S, wait_until


class Passed:
    """Counts what passes through a proxy's router."""

    def __init__(self, job: ToyJob) -> None:
        self.count = 0
        self._locate = job.locate
        job.locate = self._counted  # type: ignore[method-assign]

    def _counted(self, name: str) -> KvStateLocation | QueryOutcome:
        self.count += 1
        return self._locate(name)


@contextmanager
def direct_client(job: ToyJob, **options: Any) -> Iterator[tuple[QueryableStateClient, KvStateClientProxy, Passed]]:
    """Give a client that has reached the slot of k1."""
    passed = Passed(job)
    with toy_proxy(job, **options) as proxy, toy_client(proxy) as client:
        wait_until(lambda: is_direct(client, passed))
        yield client, proxy, passed


def is_direct(client: QueryableStateClient, passed: Passed, key: str = "k1") -> bool:
    before = passed.count
    asked(client, JOB, "sums", key)
    return passed.count == before


def test_a_key_is_asked_of_its_slot_with_version_and_age_and_the_outcomes_are_the_same():
    with direct_client(job_of_sums(1)) as (client, _, passed):
        before = passed.count
        found = asked(client, JOB, "sums", "k7", consistency=Consistency.LIVE)
        assert (found.value(), found.version.epoch, found.version.checkpoint_id) == (7, 7, None)
        assert found.version.age_ms > 0
        with pytest.raises(UnknownKeyOrNamespaceError):
            asked(client, JOB, "sums", "nobody")
        requests = [KvStateRequest("sums", key) for key in ("k3", "nobody", "k4")]
        many = client.get_kv_states(JOB, requests).result(LONGEST_S)
        assert [None if one is None else one.value() for one in many] == [3, None, 4]
        assert passed.count == before


def test_keys_of_several_slots_go_over_the_proxy_which_makes_their_versions_agree():
    job = job_of_sums(3)
    with direct_client(job) as (client, _, passed):
        before = passed.count
        many = client.get_kv_states(JOB, [KvStateRequest("sums", f"k{number}") for number in range(20)]).result(LONGEST_S)
        assert [one.value() for one in many if one is not None] == list(range(20))
        assert passed.count == before + 1


def test_slots_that_move_are_followed():
    job = job_of_sums(1)
    with direct_client(job) as (client, _, passed):
        job.serving = False
        waiting = client.get_kv_state(JOB, "sums", "k1")  # it may still reach the slot
        job.begin_attempt(2)
        assert waiting.result(LONGEST_S).value() == 1
        assert [asked(client, JOB, "sums", f"k{number}").value() for number in range(20)] == list(range(20))
        wait_until(lambda: is_direct(client, passed))


def test_a_slot_that_no_longer_has_the_key_sends_the_client_back_to_the_proxy():
    job = job_of_sums(1)
    with direct_client(job) as (client, _, passed):
        slot, answer, refused = job.slots[0], job.slots[0]._answer, []

        def moved_once(read, version):
            if refused:
                return answer(read, version)
            refused.append(read)
            return StateAnswer(QueryOutcome.NOT_SERVING, version=version)

        slot._answer = moved_once  # type: ignore[method-assign]
        before = passed.count
        assert asked(client, JOB, "sums", "k1").value() == 1
        assert passed.count > before
        wait_until(lambda: is_direct(client, passed))


def test_slots_that_can_not_be_reached_are_left_to_the_proxy(monkeypatch):
    job = job_of_sums(1)
    passed = Passed(job)
    tried = []

    def unreachable(address: Any, secret: bytes, **_: Any) -> Any:
        tried.append(address)
        message = "No route."
        raise ControlError(message)

    with toy_proxy(job) as proxy, toy_client(proxy, direct=False) as other:
        asked(other, JOB, "sums", "k1")  # the proxy has its connection
        monkeypatch.setattr(slot_channel, "connect", unreachable)
        with toy_client(proxy) as client:
            assert [asked(client, JOB, "sums", f"k{number}").value() for number in range(20)] == list(range(20))
            wait_until(lambda: tried)
            assert not any(is_direct(client, passed) for _ in range(20))
    assert tried == [job.servers[0].address], "it is left alone for a while"


@pytest.mark.parametrize("options", [{"offers_slots": False}, {}], ids=["the job offers none", "the client asks for none"])
def test_all_goes_over_the_proxy_where_one_side_wants_that(options):
    job = job_of_sums(1)
    passed = Passed(job)
    with toy_proxy(job, **options) as proxy, toy_client(proxy, direct=bool(options)) as client:
        assert not any(is_direct(client, passed) for _ in range(50))


def test_the_key_of_reads_opens_nothing_else_and_is_told_to_nobody_without_the_token():
    job = job_of_sums(1)
    job.secret = key_of_reads(b"the secret of the attempt")
    with toy_proxy(job) as proxy:
        reply = proxy.ask({"op": "locate", "job": JOB, "name": "sums"}).result(LONGEST_S)
        assert reply["outcome"] == "OK"
        assert "places" not in reply
        with pytest.raises(ControlError, match="secret"):
            ControlClient(*job.servers[0].address, TOKEN.encode())
