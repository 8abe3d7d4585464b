"""States that a function declares when it needs them, such as those of a window: some slots have them, others not yet."""

from __future__ import annotations

import pytest

from pystate.common import Types
from pystate.core.queryable.kv_state_messages import QueryOutcome, StateAnswer
from pystate.datastream import ValueStateDescriptor
from pystate.queryable import KvStateRequest, UnknownKeyOrNamespaceError, UnknownLocationError
from tests.core.queryable.proxy.toy_slots import JOB, ToyJob, toy_client, toy_proxy
from tests.waiting import LONGEST_S

KEYS = [f"k{number}" for number in range(20)]


def job_whose_second_slot_has_declared_nothing() -> ToyJob:
    job = ToyJob(2)
    sums = job.declare("sums", ValueStateDescriptor("sum", Types.LONG()), Types.STRING())
    for number, key in enumerate(KEYS):
        job.put("sums", key, sums.values.serialize(number))
    job.slots[1]._answer = lambda read, version: StateAnswer(QueryOutcome.UNKNOWN_STATE)  # type: ignore[method-assign]
    return job


def test_keys_of_a_slot_that_has_not_declared_the_state_have_no_value() -> None:
    job = job_whose_second_slot_has_declared_nothing()
    with toy_proxy(job) as proxy, toy_client(proxy) as client:
        found = client.get_kv_states(JOB, [KvStateRequest("sums", key) for key in KEYS]).result(LONGEST_S)
        values = [None if state is None else state.value() for state in found]
        assert None in values
        assert all(value in (None, number) for number, value in enumerate(values))
        assert len(set(values)) > 2
        with pytest.raises(UnknownKeyOrNamespaceError):
            client.get_kv_state(JOB, "sums", KEYS[values.index(None)]).result(LONGEST_S)


def test_after_a_restart_they_may_have_one_that_the_slot_has_not_asked_for_yet() -> None:
    job = job_whose_second_slot_has_declared_nothing()
    job.is_restored = True
    with toy_proxy(job) as proxy, toy_client(proxy, timeout=0.3) as client:
        with pytest.raises(UnknownLocationError, match="since the job started from a checkpoint"):
            client.get_kv_states(JOB, [KvStateRequest("sums", key) for key in KEYS]).result(LONGEST_S)
