"""Look-ups in a real server, one by one and several at a time."""

from __future__ import annotations

import pytest

from pystate.common import Time
from pystate.common.errors import ConfigurationError, ExternalSystemError
from pystate.connectors.redis import AsyncRedisLookup, RedisConnectionOptions, RedisLookup, RedisStructure
from pystate.core.api.async_retry import NO_RETRY_STRATEGY
from pystate.datastream.functions import AsyncFunctionDescriptor
from pystate.testing import OneInputOperatorTestHarness
from tests.servers.redis_server import running_redis


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running_redis(tmp_path_factory.mktemp("redis")) as running, running.client() as client:
        client.set("a", "1")
        client.hset("h", mapping={"n": 2})
        yield running


def arguments(server):
    return RedisConnectionOptions(server.url), lambda element: element, lambda element, found: (element, found)


def test_what_a_key_holds_is_found_and_the_cache_answers(server):
    with OneInputOperatorTestHarness(RedisLookup(*arguments(server), max_rows=10)) as harness, server.client() as client:
        harness.open()
        harness.process_elements(["a", "nothing"])
        client.set("a", "9")
        harness.process_elements(["a", "nothing"])
        client.set("a", "1")
        assert harness.extract_output() == [("a", b"1"), ("nothing", None)] * 2
        assert harness.get_metrics()["lookupCacheHits"] == 2


def test_a_hash_is_a_dict(server):
    with OneInputOperatorTestHarness(RedisLookup(*arguments(server), structure=RedisStructure.HASH)) as harness:
        harness.open()
        harness.process_elements(["h", "nothing"])
        assert harness.extract_output() == [("h", {"n": b"2"}), ("nothing", None)]
        with pytest.raises(ExternalSystemError, match="WRONGTYPE"):
            harness.process_element("a")


@pytest.mark.parametrize("key", [None, ("a", 1), "\ud800"])
def test_what_is_no_key_is_not_taken_for_a_wrong_password(server, key):
    with OneInputOperatorTestHarness(RedisLookup(*arguments(server))) as harness:
        harness.open()
        with pytest.raises(ExternalSystemError) as error:
            harness.process_element(key)
    assert "look at the key" in str(error.value)
    assert "password" not in str(error.value)


def test_several_look_ups_are_under_way_at_once(server):
    mode = AsyncFunctionDescriptor.OutputMode.ORDERED
    lookup = AsyncRedisLookup(*arguments(server), connections=3)
    step = AsyncFunctionDescriptor(lookup, Time.seconds(30), 10, NO_RETRY_STRATEGY, mode)
    with OneInputOperatorTestHarness(step) as harness:
        harness.open()
        harness.process_elements(["a", "b"] * 5)
        harness.end_epoch()
        assert harness.extract_output() == [("a", b"1"), ("b", None)] * 5


def test_a_lost_connection_is_made_again_and_a_dead_server_is_told(tmp_path):
    with running_redis(tmp_path) as own, own.client() as client:
        client.set("a", "1")
        with OneInputOperatorTestHarness(RedisLookup(*arguments(own), max_retries=1)) as harness:
            harness.open()
            harness.process_element("a")
            own.kill()
            own.start()
            harness.process_element("a")
            assert harness.extract_output() == [("a", b"1")] * 2
            own.kill()
            with pytest.raises(ExternalSystemError, match="A look-up failed"):
                harness.process_element("a")


def test_a_stream_is_not_looked_up(server):
    with pytest.raises(ConfigurationError, match="Strings and hashes"):
        RedisLookup(*arguments(server), structure=RedisStructure.STREAM)
