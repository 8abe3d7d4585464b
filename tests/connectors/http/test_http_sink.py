"""The sink on a real server in the tests: batches, resources, idempotency keys, refusals, secrets, TLS."""

from __future__ import annotations

import contextlib
import json
import pickle
import socket
import threading
import time
from datetime import date, datetime, timezone
from decimal import Decimal
from email.utils import format_datetime

import pytest

from pystate.common.errors import ConfigurationError, ExternalSystemError, RecordError
from pystate.common.row import Row, RowKind
from pystate.common.serialization import SimpleStringSchema
from pystate.connectors.async_sink.refused_elements import RefusedElements
from pystate.connectors.http import HttpBodyFormat, HttpSink
from pystate.testing import SinkTestHarness
from tests.connectors.redis.test_redis_sink import row, write
from tests.servers.certificate import certificate  # noqa: F401 - a fixture
from tests.servers.http_service import running_service
from tests.waiting import wait_until


@pytest.fixture
def service():
    with running_service() as running:
        yield running


def posts(service):
    return HttpSink.builder().set_url(service.url)


def all_alike(element):
    return "all"


def numbers(count):
    return [{"n": number} for number in range(count)]


def test_batches_are_arrays_and_all_have_arrived_at_a_checkpoint(service):
    sink = pickle.loads(pickle.dumps(posts(service).set_max_batch_size(10).set_key(all_alike).build()))
    write(sink, *numbers(25))
    assert service.posted == numbers(25)
    assert [len(json.loads(asked.body)) for asked in service.asked] == [10, 10, 5]
    assert {asked.headers["Content-Type"] for asked in service.asked} == {"application/json"}


def test_lines_and_values_of_ones_own(service):
    service.answer = lambda _: (204, b"", False)
    write(
        posts(service).set_body_format(HttpBodyFormat.JSON_LINES).build(),
        Row(a=1, b=date(2020, 1, 2)),
        {"c": Decimal("1.5")},
    )
    write(posts(service).set_value(SimpleStringSchema()).set_content_type("text/x").set_max_batch_size(1).build(), "x")
    assert service.asked[0].body == b'{"a": 1, "b": "2020-01-02"}\n{"c": "1.5"}\n'
    assert service.asked[0].headers["Content-Type"] == "application/x-ndjson"
    assert (service.asked[1].body, service.asked[1].headers["Content-Type"]) == (b"[x]", "text/x")


def test_resources_are_replaced_and_deleted_by_key(service):
    sink = posts(service).set_resource_key("id").build()
    write(sink, Row(id="a/b", n=1), Row(id="c", n=2), row(RowKind.UPDATE_AFTER, id="c", n=3))
    assert service.resources == {"/in/a%2Fb": {"id": "a/b", "n": 1}, "/in/c": {"id": "c", "n": 3}}
    gone = row(RowKind.UPDATE_BEFORE, id="c", n=3), row(RowKind.DELETE, id="c", n=3), row(RowKind.DELETE, id="never", n=0)
    write(sink, *gone)
    assert list(service.resources) == ["/in/a%2Fb"]
    assert "by key" in sink.guarantee_reason
    with pytest.raises(RecordError, match="no key"):
        write(posts(service).set_resource_key(lambda _: None).build(), Row(id=1))


def test_rows_that_change_are_not_posted(service):
    with pytest.raises(RecordError, match="only grows"):
        write(posts(service).build(), row(RowKind.DELETE, id=1))


def test_an_answer_that_was_lost_is_asked_for_with_the_same_key(service):
    lost = []

    def answer(asked):
        lost.append(asked.headers["Idempotency-Key"])
        return (0 if len(lost) == 1 else 503 if len(lost) == 2 else 200), b"", True

    service.answer = answer
    write(posts(service).build(), *numbers(3))
    assert len(lost) == 3
    assert len(set(lost)) == 1
    assert service.posted == numbers(3)


def test_ids_make_keys_that_are_the_same_after_a_failure(service):
    sink = posts(service).set_record_id(lambda element: element["n"]).set_max_batch_size(1).build()
    write(sink, *numbers(3))
    write(sink, *numbers(4))  # from the latest checkpoint again
    assert sorted(element["n"] for element in service.posted) == [0, 1, 2, 3]
    assert len(service.asked) == 7
    assert "effectively exactly-once" in sink.guarantee_reason
    together = posts(service).set_record_id(lambda element: element["n"]).build()
    write(together, *numbers(2))
    write(together, *numbers(2))
    assert len({asked.headers["Idempotency-Key"] for asked in service.asked[7:]}) == 1
    assert "other batches" in together.guarantee_reason
    assert "posted again" in posts(service).build().guarantee_reason


def test_a_batch_that_is_refused_is_halved_until_the_one_to_blame_is_alone(service):
    def answer(asked):
        good = {"n": 5} not in json.loads(asked.body)
        return (200, b"", True) if good else (422, b"n must not be 5", False)

    service.answer = answer
    with SinkTestHarness(posts(service).set_refused_elements(RefusedElements.skip()).build()) as harness:
        harness.open()
        harness.process_elements(numbers(16))
        harness.snapshot(1)
        assert harness.get_metrics()["numRecordsSendErrors"] == 1
    assert service.posted == [one for one in numbers(16) if one["n"] != 5]
    with pytest.raises(RecordError, match=r'refuses .*"n": 5.*: 422 .*n must not be 5'):
        write(posts(service).build(), *numbers(16))


def test_those_that_an_answer_names_are_tried_again_alone(service):
    failed = [{"1": True, "2": False}, {}]

    def answer(asked):
        places = failed.pop(0)
        service.posted += [one for place, one in enumerate(json.loads(asked.body)) if str(place) not in places]
        return 207, json.dumps(places).encode(), False

    service.answer = answer
    sink = posts(service).set_failed_of(lambda body: {int(place): again for place, again in json.loads(body).items()})
    write(sink.set_refused_elements(RefusedElements.skip()).build(), *numbers(4))
    assert service.posted == [{"n": 0}, {"n": 3}, {"n": 1}]


@pytest.mark.parametrize("status", [302, 401, 403, 404, 405, 501])
def test_a_service_that_takes_nothing_fails_the_job_at_once(service, status):
    service.answer = lambda _: (status, b"no", False)
    with pytest.raises(ExternalSystemError, match=f"does not take what is sent: {status} .*no"):
        write(posts(service).set_refused_elements(RefusedElements.skip()).build(), {"n": 1})
    assert len(service.asked) == 1


def test_retries_end(service):
    service.answer = lambda _: (503, b"", False)
    with pytest.raises(ExternalSystemError, match="503 .*, 2 times"):
        write(posts(service).set_max_retries(1).build(), {"n": 1})


@pytest.mark.parametrize("dated", [False, True])
def test_a_service_that_asks_for_a_pause_gets_it(service, dated, caplog):
    until = float(int(time.time()) + 3)
    service.headers["Retry-After"] = (
        format_datetime(datetime.fromtimestamp(until, timezone.utc), usegmt=True) if dated else "2"
    )
    first: list[float] = []

    def answer(_):
        first.append(time.time())
        wanted = until if dated else first[0] + 2
        return (200, b"", True) if time.time() > wanted - 0.1 else (503, b"", False)

    service.answer = answer
    write(posts(service).build(), {"n": 1})
    assert len(service.asked) == 2
    assert service.posted == [{"n": 1}]
    assert "and a pause of" in caplog.text


@pytest.mark.parametrize("nonsense", ["soon", "-1", "Mon, 99 Foo 2020 00:00:00 GMT"])
def test_a_pause_that_nobody_understands_is_none(service, nonsense):
    service.headers["Retry-After"] = nonsense
    service.answer = lambda _: (200 if len(service.asked) > 1 else 503, b"", len(service.asked) > 1)
    write(posts(service).build(), {"n": 1})
    assert service.posted == [{"n": 1}]


def test_an_answer_without_end_is_given_up(service):
    service.pace_s = 0.1
    service.answer = lambda _: (200, b"x" * 100, True)
    sink = posts(service).set_request_timeout_ms(300).set_max_retries(0)
    with pytest.raises(ExternalSystemError, match="no end after 300 ms"):
        write(sink.build(), {"n": 1})


def test_an_answer_whose_head_comes_byte_by_byte_ends_with_the_timeout():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError):
                connection.recv(1 << 16)
                for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: " + b"x" * 60 + b"\r\n\r\n":
                    connection.sendall(bytes([byte]))
                    time.sleep(0.02)

        threading.Thread(target=answer, daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/in"
        sink = HttpSink.builder().set_url(url).set_request_timeout_ms(300).set_max_retries(0)
        with pytest.raises(ExternalSystemError, match="no end after 300 ms"):
            write(sink.build(), {"n": 1})


def test_of_a_long_answer_no_more_is_read_than_is_needed(service):
    service.answer = lambda _: (200, b" " * (17 << 20), True)
    write(posts(service).build(), {"n": 1})
    with pytest.raises(ExternalSystemError, match="more than 16,777,216 bytes"):
        write(posts(service).set_failed_of(json.loads).set_max_retries(0).build(), {"n": 1})


@pytest.mark.parametrize("places", [b'{"0": true}', b'{"7": false}'])
def test_an_answer_that_names_what_was_not_sent_fails_the_job(service, places):
    service.answer = lambda _: (200, places, False)
    sink = posts(service).set_failed_of(json.loads if b"0" in places else lambda _: {7: False})
    with pytest.raises(ExternalSystemError, match="names a place that a batch of 1 does not have"):
        write(sink.build(), {"n": 1})


@pytest.mark.parametrize("key", [".", ".."])
def test_no_resource_is_outside_of_its_url(service, key):
    for kind in (RowKind.INSERT, RowKind.DELETE):
        with pytest.raises(RecordError, match="No resource can be named"):
            write(posts(service).set_resource_key("id").build(), row(kind, id=key))
    assert not service.asked


@pytest.mark.parametrize("record_id", ["\u20ac", "a\r\nX: 1", "long" * 100])
def test_an_id_that_no_header_can_have_makes_a_key_all_the_same(service, record_id):
    sink = posts(service).set_max_batch_size(1).set_record_id(lambda element: record_id + str(element["n"])).build()
    write(sink, *numbers(2))
    write(sink, *numbers(2))
    assert sorted(element["n"] for element in service.posted) == [0, 1]
    assert all(len(asked.headers["Idempotency-Key"]) == 64 for asked in service.asked)


@pytest.mark.parametrize("value", ["a\r\nX: 1", "\u20ac"])
def test_a_header_that_http_does_not_take_is_told_without_its_value(service, value):
    with pytest.raises(ConfigurationError, match="of the header X-Key has characters") as error:
        write(posts(service).set_header("X-Key", value).build(), {"n": 1})
    assert value not in str(error.value)


def test_a_service_that_is_away_is_waited_for(service):
    with SinkTestHarness(posts(service).set_max_batch_size(1).set_key("n").build()) as harness:
        harness.open()
        harness.process_element({"n": 1})
        wait_until(lambda: service.posted)
        service.stop()
        harness.process_element({"n": 2})
        service.start()
        harness.snapshot(1)
    assert service.posted == [{"n": 1}, {"n": 2}]


def test_secrets_are_sent_and_never_shown(service, monkeypatch, caplog):
    monkeypatch.setenv("TOKEN", "Bearer t0ken")
    monkeypatch.setenv("SERVICE", service.url.replace("127", "me:p4ss%2F@127") + "?key=k3y")
    sink = HttpSink.builder().set_url_variable("SERVICE").set_header_variable("Authorization-Of-Us", "TOKEN")
    service.answer = lambda _: (503 if len(service.asked) == 1 else 401, b"", False)
    sink.set_header("X-Key", "h34der")
    with pytest.raises(ExternalSystemError) as error:
        write(sink.build(), {"n": 1})
    headers, path = service.asked[0].headers, service.asked[0].path
    assert (headers["Authorization-Of-Us"], headers["X-Key"], path) == ("Bearer t0ken", "h34der", "/in?key=k3y")
    assert headers["Authorization"] == "Basic bWU6cDRzcy8="
    shown = f"{error.value} {error.value.where} {caplog.text} {sink.build()!r} {sink.build().service!r}"
    shown += repr(HttpSink.builder().set_url("https://me:p4ss@host/?key=k3y").set_header("X-Key", "h34der").build().service)
    for secret in ("t0ken", "p4ss", "k3y", "h34der"):
        assert secret not in shown
    monkeypatch.delenv("TOKEN")
    with pytest.raises(ConfigurationError, match="variable of the header"):
        write(sink.build(), {"n": 1})


def test_tls_is_checked(certificate):  # noqa: F811 - the fixture
    with running_service(certificate) as service:
        write(posts(service).set_tls(ca_file=certificate[0]).build(), {"n": 1})
        assert service.posted == [{"n": 1}]
        with pytest.raises(ExternalSystemError, match="CERTIFICATE_VERIFY_FAILED"):
            write(posts(service).set_max_retries(0).build(), {"n": 1})


def test_settings_that_do_not_go_together_are_told_where_the_sink_is_made(service):
    with pytest.raises(ConfigurationError, match="needs its URL"):
        HttpSink.builder().build()
    with pytest.raises(ConfigurationError, match="its own request"):
        posts(service).set_resource_key("id").set_key("id").build()
    with pytest.raises(ConfigurationError, match="HttpBodyFormat"):
        posts(service).set_body_format("json")
    with pytest.raises(ConfigurationError, match="can't be used"):
        write(HttpSink.builder().set_url("ftp://host").build(), {"n": 1})
    with pytest.raises(RecordError, match="can't be written as JSON"):
        write(posts(service).build(), {"n": {1, 2}})
