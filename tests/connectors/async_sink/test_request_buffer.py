"""Which requests are sent together, and what is tried again: orders, limits, and a model of both."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystate.common.errors import ConfigurationError
from pystate.connectors.async_sink.async_sink_settings import AsyncSinkSettings
from pystate.connectors.async_sink.request import Fate, Outcome, Request
from pystate.connectors.async_sink.request_buffer import RequestBuffer

LATER = Outcome(Fate.RETRY, "later")
NEVER = Outcome(Fate.REFUSED, "never")


def buffer_of(*requests, replaces=False, **settings):
    buffer = RequestBuffer(AsyncSinkSettings(**{"max_batch_size": 3, **settings}), replaces=replaces)
    for request in requests:
        buffer.add(request, 0.0)
    return buffer


def request(key, payload, size=1):
    return Request(key, payload, size, b"")


def payloads(batch):
    return [one.payload for one in batch]


def test_a_batch_is_full_by_number_or_by_size_or_is_old():
    buffer = buffer_of(request("a", 1), request("b", 2), max_batch_size_in_bytes=10, max_record_size_in_bytes=10)
    assert not buffer.has_batch
    assert buffer.take(0.0, partial=False) == []
    assert buffer.next_due(1.0) == 4.0
    buffer.add(request("c", 3), 1.0)
    assert buffer.has_batch
    assert payloads(buffer.take(1.0, partial=False)) == [1, 2, 3]
    buffer.add(request("d", 4, 6), 2.0)
    buffer.add(request("e", 5, 6), 2.0)
    assert buffer.has_batch
    assert payloads(buffer.take(2.0, partial=False)) == [4]
    assert payloads(buffer.take(2.0, partial=True)) == [5]
    assert buffer.next_due(2.0) is None


def test_a_key_waits_for_its_own_batch_and_others_overtake_it():
    buffer = buffer_of(request("a", 1), request("b", 2), request("a", 3))
    first = buffer.take(0.0, partial=True)
    for one in (request("a", 4), request("c", 5)):
        buffer.add(one, 0.0)
    assert payloads(first) == [1, 2, 3]
    assert payloads(buffer.take(0.0, partial=True)) == [5]
    assert buffer.next_due(99.0) is None
    buffer.settle(first, [None, None, None], 0.0)
    assert payloads(buffer.take(0.0, partial=True)) == [4]


def test_what_is_tried_again_takes_what_came_after_it_with_its_key_along_and_nothing_else():
    buffer = buffer_of(request("a", 1), request("b", 2), request("a", 3))
    batch = buffer.take(0.0, partial=True)
    buffer.add(request("a", 4), 0.0)
    settled = buffer.settle(batch, [LATER, None, None], 0.0)
    assert payloads(settled.done) == [2]
    assert settled.retried == 2
    assert buffer.take(0.0, partial=True) == []
    assert buffer.next_due(0.0) == pytest.approx(0.1)
    assert payloads(buffer.take(0.1, partial=True)) == [1, 3, 4]


def test_one_that_is_refused_or_fails_too_often_is_told():
    buffer = buffer_of(request("a", 1), request("b", 2), max_retries=1)
    settled = buffer.settle(buffer.take(0.0, partial=True), [NEVER, LATER], 0.0)
    assert [(one.payload, why) for one, why in settled.refused] == [(1, "never")]
    assert settled.given_up is None
    settled = buffer.settle(buffer.take(9.0, partial=True), [LATER], 9.0)
    assert settled.given_up is not None
    assert settled.given_up[0].payload == 2


def test_a_newer_one_replaces_what_waits_but_not_what_is_under_way():
    buffer = buffer_of(request("a", 1), request("a", 2), request("b", 3), replaces=True)
    assert len(buffer) == 2
    batch = buffer.take(0.0, partial=True)
    buffer.add(request("a", 4), 0.0)
    assert payloads(batch) == [2, 3]
    assert buffer.settle(batch, [LATER, None], 0.0).retried == 0
    assert payloads(buffer.take(0.0, partial=True)) == [4]


def test_keys_under_way_are_not_looked_through_for_each_element():
    buffer = buffer_of(request("a", 0))
    buffer.take(0.0, partial=True)
    for number in range(1, 4):
        buffer.add(request("a", number), 0.0)
    assert buffer.has_batch
    assert buffer.take(0.0, partial=False) == []
    assert not buffer.has_batch


def test_settings_that_do_not_go_together_are_refused():
    for wrong in ({"max_batch_size": 0}, {"max_retries": -1}, {"max_batch_size": 9, "max_buffered_requests": 8}):
        with pytest.raises(ConfigurationError):
            AsyncSinkSettings(**wrong)
    with pytest.raises(ConfigurationError, match="max_record_size_in_bytes"):
        AsyncSinkSettings(max_record_size_in_bytes=2, max_batch_size_in_bytes=1)
    assert AsyncSinkSettings(max_retries=0).max_retries == 0


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from("abc")),
        st.tuples(st.just("take"), st.booleans()),
        st.tuples(st.just("settle"), st.integers(0, 3), st.lists(st.sampled_from([None, LATER]), min_size=3, max_size=3)),
        st.tuples(st.just("wait"), st.sampled_from([0.1, 6.0])),
    ),
    max_size=60,
)


@given(steps=_STEPS, replaces=st.booleans())
def test_each_key_ends_with_its_newest_and_nothing_is_lost(steps, replaces):
    buffer = buffer_of(replaces=replaces, max_retries=1000)
    now, number, under_way, applied, added = 0.0, 0, [], {}, {}

    def settle(place, outcomes):
        batch = under_way.pop(place)
        outcomes = outcomes[: len(batch)]
        for one, outcome in zip(batch, outcomes, strict=True):  # the service may have done what it says it hasn't
            applied.setdefault(one.key, []).append(one.payload)
            del outcome
        buffer.settle(batch, outcomes, now)

    for step in steps:
        if step[0] == "add":
            number += 1
            added.setdefault(step[1], []).append(number)
            buffer.add(request(step[1], number), now)
        elif step[0] == "take":
            batch = buffer.take(now, partial=step[1])
            if batch:
                assert not {one.key for one in batch} & {one.key for other in under_way for one in other}
                under_way.append(batch)
        elif step[0] == "settle" and under_way:
            settle(step[1] % len(under_way), step[2])
        elif step[0] == "wait":
            now += step[1]
    while len(buffer) or under_way:
        now += 6.0
        batch = buffer.take(now, partial=True)
        if batch:
            under_way.append(batch)
        settle(0, [None] * 3)
    for key, numbers in added.items():
        assert applied[key][-1] == numbers[-1]
        if not replaces:
            assert set(applied[key]) == set(numbers)
            firsts = list(dict.fromkeys(applied[key]))
            assert firsts == numbers
    assert buffer.next_due(now) is None
