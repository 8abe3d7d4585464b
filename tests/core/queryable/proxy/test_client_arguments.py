"""What a caller gives a client wrongly is told as all else is, before anything is asked."""

from __future__ import annotations

from typing import Any

import pytest

import pystate.queryable
from pystate.common import Types
from pystate.common.errors import UsageError
from pystate.core.queryable.server.kv_state_registry import KvStateRegistry
from pystate.core.queryable.server.kv_state_server import KvStateServer
from pystate.queryable import BadQueryError, ProxyUnreachableError, QueryableStateClient
from tests.core.queryable.proxy.toy_slots import JOB, TOKEN, ToyJob, toy_client, toy_proxy
from tests.waiting import LONGEST_S


@pytest.mark.parametrize("port", [0, -1, 65_536])
def test_a_port_is_one(port: int) -> None:
    with pytest.raises(UsageError, match=f"1 to 65535, not {port}"):
        QueryableStateClient("127.0.0.1", port)


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan")])
def test_a_client_has_time(timeout: float) -> None:
    with pytest.raises(UsageError, match="more than 0 seconds"):
        QueryableStateClient(timeout=timeout)


@pytest.mark.parametrize("name", [None, 5, "\udcff"])
def test_the_name_of_a_state_is_a_text(name: Any) -> None:
    job = ToyJob(1)
    with toy_proxy(job) as proxy, toy_client(proxy) as client, pytest.raises(BadQueryError, match="is a text, not"):
        client.get_kv_state(JOB, name, 1).result(LONGEST_S)


def test_a_consistency_is_one_of_two() -> None:
    job = ToyJob(1)
    with (
        toy_proxy(job) as proxy,
        toy_client(proxy) as client,
        pytest.raises(BadQueryError, match="must be one of checkpointed, live"),
    ):
        client.get_kv_state(JOB, "state", 1, Types.LONG(), consistency="lively")  # type: ignore[arg-type]


def test_a_slot_that_is_taken_for_a_proxy_is_named_for_what_it_is_not() -> None:
    server = KvStateServer(KvStateRegistry(), b"secret", host="127.0.0.1", ports=range(29_067, 29_068))
    server.start()
    with QueryableStateClient(*server.address, token=TOKEN, timeout=0.5) as client:
        error = client.get_kv_state(JOB, "state", 1).exception(LONGEST_S)
    server.close()
    assert isinstance(error, ProxyUnreachableError)
    assert error.message.endswith("who listens there doesn't speak as a proxy of queryable state does.")


def test_all_that_programs_need_is_imported_by_a_star() -> None:
    assert {"QueryableStateClient", "Consistency", "KvStateRequest", "UnknownJobError"} <= set(pystate.queryable.__all__)
    assert all(hasattr(pystate.queryable, name) for name in pystate.queryable.__all__)
