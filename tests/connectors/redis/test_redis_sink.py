"""The sink on a real server: structures, kinds of rows, refusals, passwords, and a server that dies or stands still."""

from __future__ import annotations

import logging
import pickle

import pytest

from pystate.common import Types
from pystate.common.errors import ConfigurationError, ExternalSystemError, RecordError
from pystate.common.row import Row, RowKind
from pystate.common.serialization import SimpleStringSchema
from pystate.common.time import Duration
from pystate.connectors.async_sink.refused_elements import RefusedElements
from pystate.connectors.redis import RedisSink, RedisStructure
from pystate.testing import SinkTestHarness
from tests.servers.certificate import certificate  # noqa: F401 - a fixture
from tests.servers.redis_server import PASSWORD, running_redis
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running_redis(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture
def reader(server):
    with server.client() as client:
        client.flushdb()
        yield client


def strings(url):
    return RedisSink.builder().set_url(url).set_key("id", prefix="user:").set_value(lambda row: row["name"])


def row(kind, **fields):
    made = Row(**fields)
    made.set_row_kind(kind)
    return made


def write(sink, *elements, input_type=None):
    with SinkTestHarness(sink, input_type=input_type) as harness:
        harness.open()
        harness.process_elements(list(elements))
        harness.snapshot(1)


def test_a_database_that_is_not_there_is_told_with_its_place(server):
    with pytest.raises(ExternalSystemError, match="can't be used: .*DB index is out of range") as error:
        write(strings(server.url[:-1] + "99").build(), Row(id=1, name="a"))
    assert PASSWORD not in str(error.value)


def test_a_string_is_the_latest_of_its_key_and_goes_with_a_delete(server, reader):
    sink = strings(server.url).build()
    write(sink, Row(id=1, name="a"), Row(id=2, name="b"), Row(id=3, name="c"))
    changed = row(RowKind.UPDATE_BEFORE, id=1, name="a"), row(RowKind.UPDATE_AFTER, id=1, name="z")
    write(pickle.loads(pickle.dumps(strings(server.url).set_value(SimpleStringSchema()).set_key(str.upper).build())), "x")
    write(sink, *changed, row(RowKind.DELETE, id=2, name=None))
    assert {key: reader.get(key) for key in reader.keys()} == {"user:1": "z", "user:3": "c", "X": "x"}


def test_a_hash_has_the_fields_of_the_latest_only(server, reader):
    sink = RedisSink.builder().set_url(server.url).set_key("id").set_structure(RedisStructure.HASH)
    sink.set_time_to_live(Duration.of_seconds(100)).set_delete_when(lambda row: row["n"] == 0)
    write(sink.build(), {"id": 1, "n": 2, "old": True}, {"id": 2, "n": 1.5, "none": None}, {"id": 3, "n": 9})
    assert reader.hgetall("1") == {"id": "1", "n": "2", "old": "true"}
    write(sink.build(), {"id": 1, "n": 3}, {"id": 3, "n": 0})
    assert reader.hgetall("1") == {"id": "1", "n": "3"}
    assert reader.hgetall("2") == {"id": "2", "n": "1.5"}
    assert not reader.exists("3")
    assert 90_000 < reader.pttl("1") <= 100_000


def test_a_string_expires(server, reader):
    write(strings(server.url).set_time_to_live(Duration.of_seconds(100)).build(), {"id": 1, "name": "a"})
    assert 90_000 < reader.pttl("user:1") <= 100_000


def test_a_stream_has_all_in_order(server, reader):
    sink = RedisSink.builder().set_url(server.url).set_structure(RedisStructure.STREAM).set_key(lambda row: "log")
    write(sink.set_max_batch_size(7).build(), *[{"n": number} for number in range(50)])
    assert [fields for _, fields in reader.xrange("log")] == [{"n": str(number)} for number in range(50)]
    with pytest.raises(RecordError, match="only grows, and .* is a DELETE"):
        write(sink.build(), row(RowKind.DELETE, n=1))
    assert "twice" in sink.build().guarantee_reason
    write(sink.set_max_stream_length(10).build(), *[{"n": number} for number in range(1000)])
    assert reader.xlen("log") < 300


def test_an_entry_that_redis_refuses_is_kept_elsewhere_and_the_others_are_written(server, reader):
    reader.set("taken", "by a string")
    sink = RedisSink.builder().set_url(server.url).set_structure(RedisStructure.STREAM).set_key("to")
    write_to = (
        RedisSink.builder().set_url(server.url).set_structure(RedisStructure.STREAM).set_key(lambda _: "letters").build()
    )
    rows = {"to": "taken", "n": 1}, {"to": "log", "n": 2}, {"to": None, "n": 3}
    write(sink.set_refused_elements(RefusedElements.to_sink(write_to)).build(), *rows)
    assert [fields["n"] for _, fields in reader.xrange("log")] == ["2"]
    letters = {fields["reason"]: fields["value"] for _, fields in reader.xrange("letters")}
    assert [reason[:14] for reason in sorted(letters)] == ["The key of an ", "WRONGTYPE Oper"]
    assert "taken" in letters[max(letters)]
    with pytest.raises(RecordError, match="WRONGTYPE"):
        write(sink.set_refused_elements(RefusedElements.fail()).build(), *rows[:2])


@pytest.mark.parametrize(
    ("element", "says"),
    [
        ({"id": None, "name": "a"}, "key of an element is None"),
        ({"id": b"\xff", "name": "a"}, "have no text"),
        ({"name": "a"}, "no field 'id' for its key"),
        ({"id": 1, "name": ["a"]}, "Redis holds bytes, and the value is"),
    ],
)
def test_elements_that_make_no_command_are_told(server, reader, element, says):
    with pytest.raises(RecordError, match=says):
        write(strings(server.url).build(), element)


def test_settings_that_do_not_go_together_are_told_where_the_sink_is_made():
    def made(**changes):
        builder = RedisSink.builder().set_url("redis://host").set_key("id").set_value(str)
        for name, value in changes.items():
            getattr(builder, name)(value)
        return builder.build()

    wrong = [
        ({"set_url_file": "/a"}, "one of these"),
        ({"set_url": "http://host"}, "redis://"),
        ({"set_structure": RedisStructure.HASH, "set_value": SimpleStringSchema()}, "fields, and no bytes"),
        ({"set_structure": RedisStructure.STREAM, "set_time_to_live": Duration.of_seconds(1)}, "don't expire"),
        ({"set_max_stream_length": 5}, "Only a stream"),
        ({"set_time_to_live": Duration.of_millis(0)}, "1 at least"),
        ({"set_max_batch_size": 0}, "from 1 on"),
    ]
    for changes, says in wrong:
        with pytest.raises(ConfigurationError, match=says):
            made(**changes)
    with pytest.raises(ConfigurationError, match="needs its value"):
        RedisSink.builder().set_url("redis://host").set_key("id").build()
    with pytest.raises(ConfigurationError, match="needs the key"):
        RedisSink.builder().set_url("redis://host").build()
    with pytest.raises(ConfigurationError, match="one function"):
        RedisSink.builder().set_key()
    with pytest.raises(ConfigurationError, match="RedisStructure"):
        made(set_structure="HASH")


def test_a_password_is_never_shown(server, monkeypatch, tmp_path, caplog):
    assert PASSWORD not in repr(strings(server.url).build())
    monkeypatch.setenv("REDIS", server.url)
    by_variable = RedisSink.builder().set_url_variable("REDIS").set_key("id").set_value(str).build()
    write(by_variable, {"id": "a"})
    (tmp_path / "url").write_text(server.url + "\n")
    by_file = RedisSink.builder().set_url_file(str(tmp_path / "url")).set_key("id").set_value(str)
    write(by_file.build(), {"id": "b"})
    assert repr(by_variable) == "RedisSink(the URL in REDIS)"
    with caplog.at_level(logging.DEBUG), pytest.raises(ExternalSystemError, match="Redis refuses what is asked") as error:
        write(strings(server.url.replace(PASSWORD, "wr0ng-secret")).build(), {"id": 1, "name": "a"})
    assert "wr0ng-secret" not in f"{error.value} {error.value.where} {caplog.text}"
    assert "ACL" in error.value.hint


def test_a_user_without_the_right_is_told(server, reader):
    reader.acl_setuser("reads", enabled=True, passwords=["+reads"], keys=["*"], commands=["+get", "+ping", "+select"])
    with pytest.raises(ExternalSystemError, match="NOPERM"):
        write(strings(server.url.replace(f":{PASSWORD}", "reads:reads")).build(), {"id": 1, "name": "a"})


def test_a_server_that_takes_nothing_for_now_is_waited_for(server, reader, caplog):
    with SinkTestHarness(strings(server.url).set_max_time_in_buffer_ms(1).build()) as harness:
        harness.open()
        reader.config_set("maxmemory", "1")
        try:
            harness.process_element({"id": 1, "name": "a"})
            wait_until(lambda: "OOM" in caplog.text)
        finally:
            reader.config_set("maxmemory", "0")
        harness.snapshot(1)
    assert reader.get("user:1") == "a"


def test_a_server_that_died_has_all_when_it_is_back(tmp_path):
    with running_redis(tmp_path) as own, SinkTestHarness(strings(own.url).set_max_batch_size(3).build()) as harness:
        harness.open()
        harness.process_elements([{"id": number, "name": "old"} for number in range(30)])
        own.kill()
        harness.process_elements([{"id": number, "name": "new"} for number in range(20, 40)])
        own.start()
        harness.snapshot(1)
        with own.client() as reader:
            assert {reader.get(f"user:{number}") for number in range(20)} == {"old"}
            assert {reader.get(f"user:{number}") for number in range(20, 40)} == {"new"}


def test_what_a_server_did_not_do_in_time_is_not_done_after_newer_ones(tmp_path):
    with running_redis(tmp_path) as own:
        sink = strings(own.url).set_request_timeout_ms(200).set_max_batch_size(1).set_max_retries(1000).build()
        with SinkTestHarness(sink) as harness, own.client() as reader:
            harness.open()
            harness.process_element({"id": 1, "name": "first"})
            wait_until(lambda: reader.get("user:1") == "first")
            own.pause()
            harness.process_element({"id": 1, "name": "old"})
            wait_until(lambda: harness.get_metrics()["numRecordsSendRetries"])
            harness.process_element({"id": 1, "name": "new"})
            own.go_on()
            harness.snapshot(1)
            assert reader.get("user:1") == "new"
            assert reader.client_list().__len__() <= 3


def test_tls_is_checked(tmp_path, certificate):  # noqa: F811 - the fixture
    with running_redis(tmp_path, tls=certificate) as own:
        write(strings(own.url).set_client_options({"ssl_ca_certs": certificate[0]}).build(), {"id": 1, "name": "a"})
        with own.client() as reader:
            assert reader.get("user:1") == "a"
        with pytest.raises(ExternalSystemError, match="CERTIFICATE_VERIFY_FAILED|self-signed"):
            write(strings(own.url).set_max_retries(0).build(), {"id": 1, "name": "a"})


def test_rows_come_by_their_type(server, reader):
    of_row = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
    write(strings(server.url).build(), Row(id=7, name="typed"), input_type=of_row)
    assert reader.get("user:7") == "typed"
