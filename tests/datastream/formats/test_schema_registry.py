"""Messages whose schemas are in a registry: a real one, of Apicurio's; `make servers` brings it."""

from __future__ import annotations

import json
import pickle
import ssl
import struct
import threading
import uuid
from base64 import b64encode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import requests

from pystate.common import Row, Types
from pystate.common.errors import ExternalSystemError, JobGraphError, RecordError
from pystate.connectors.bad_records import is_of_the_record
from pystate.connectors.schema_registry.registry import SchemaRegistry
from pystate.datastream.formats.schema_registry import (
    ConfluentRegistryAvroDeserializationSchema,
    ConfluentRegistryAvroSerializationSchema,
    ConfluentRegistryJsonDeserializationSchema,
    ConfluentRegistryJsonSerializationSchema,
    ConfluentRegistryProtobufDeserializationSchema,
    ConfluentRegistryProtobufSerializationSchema,
    Subject,
)
from tests.datastream.formats.test_avro import schema
from tests.datastream.formats.test_protobuf import ORDER, ROW
from tests.servers.certificate import certificate  # noqa: F401 - a fixture
from tests.servers.schema_registry import registry  # noqa: F401 - a fixture

OLD = schema({"name": "id", "type": "int"}, {"name": "w", "type": "string"}, name="n.W")
NEW = schema({"name": "more", "type": "string", "default": "d"}, {"name": "id", "type": "long"}, name="n.W")
PAIR = Types.ROW_NAMED(["id", "w"], [Types.LONG(), Types.STRING()])
JSON = json.dumps({"title": "W", "type": "object", "properties": {"id": {"type": "integer", "minimum": 0}}})
SUBJECTS = {
    "mine": "mine",
    "orders-value": Subject.of_topic("orders"),
    "orders-key": Subject.of_topic("orders", is_key=True),
    "n.W": Subject.of_record(),
    "orders-n.W": Subject.of_topic_and_record("orders"),
}


def ask(url):
    answer = requests.get(url, timeout=30)
    answer.raise_for_status()
    return answer.json()


def test_rows_of_another_schema_are_read_by_that_of_the_program(registry):  # noqa: F811 - the fixture
    writes = ConfluentRegistryAvroSerializationSchema.for_rows("evolved", OLD, registry)
    reads = ConfluentRegistryAvroDeserializationSchema.for_rows(NEW, registry)
    data = writes.serialize(Row(id=7, w="a"))

    assert data[0] == 0 and reads.produced_type.get_field_names() == ["more", "id"]
    assert pickle.loads(pickle.dumps(reads)).deserialize(data) == Row(more="d", id=7)
    assert pickle.loads(pickle.dumps(writes)).serialize(Row(id=7, w="a")) == data
    generic = ConfluentRegistryAvroDeserializationSchema.for_generic(OLD, registry)
    assert generic.deserialize(data) == {"id": 7, "w": "a"}


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_schema_is_registered_under_its_subject(registry, name):  # noqa: F811 - the fixture
    data = ConfluentRegistryAvroSerializationSchema.for_generic(SUBJECTS[name], OLD, registry).serialize({"id": 1, "w": "a"})

    (number,) = struct.unpack(">I", data[1:5])
    assert ask(f"{registry}/subjects/{name}/versions/latest")["id"] == number


def test_a_schema_is_not_registered_where_the_program_says_so(registry):  # noqa: F811 - the fixture
    configs = {"auto.register.schemas": False}
    writes = ConfluentRegistryAvroSerializationSchema.for_generic("nobodys", OLD, registry, None, configs)

    with pytest.raises((ExternalSystemError, RecordError), match="schema registry"):
        writes.serialize({"id": 1, "w": "a"})
    with pytest.raises(requests.HTTPError):
        ask(f"{registry}/subjects/nobodys/versions/latest")


@pytest.mark.parametrize("message", [b"", b"{}", b"\x01abcdefg", b"\x00\x00\x00\xff\xffabc", "cut"])
def test_what_no_serializer_has_written_is_a_matter_of_the_record(registry, message):  # noqa: F811 - the fixture
    data = ConfluentRegistryAvroSerializationSchema.for_rows("cut", OLD, registry).serialize(Row(id=7, w="abc"))

    reads = ConfluentRegistryAvroDeserializationSchema.for_rows(NEW, registry)
    with pytest.raises(RecordError) as refused:
        reads.deserialize(data[:6] if message == "cut" else message)
    assert is_of_the_record(refused.value)


def test_json_fits_the_schema_that_the_registry_has(registry):  # noqa: F811 - the fixture
    writes = ConfluentRegistryJsonSerializationSchema("jsons", PAIR, JSON, registry)
    reads = ConfluentRegistryJsonDeserializationSchema(PAIR, registry)
    data = pickle.loads(pickle.dumps(writes)).serialize(Row(id=7, w="ä"))

    assert pickle.loads(pickle.dumps(reads)).deserialize(data) == Row(id=7, w="ä")
    with pytest.raises(RecordError, match="less than the minimum"):
        writes.serialize(Row(id=-1, w="a"))
    with pytest.raises(RecordError, match="less than the minimum"):
        reads.deserialize(data[:5] + b'{"id": -1}')


def test_messages_of_protobuf_name_their_schema(registry):  # noqa: F811 - the fixture
    writes = ConfluentRegistryProtobufSerializationSchema(Subject.of_topic("enums"), ORDER, registry)
    reads = ConfluentRegistryProtobufDeserializationSchema(ORDER, registry)
    row = ROW
    data = pickle.loads(pickle.dumps(writes)).serialize(row)

    assert pickle.loads(pickle.dumps(reads)).deserialize(data) == row
    with pytest.raises(RecordError):
        reads.deserialize(b"\x00")


def test_a_registry_that_does_not_answer_is_no_matter_of_the_record():
    reads = ConfluentRegistryAvroDeserializationSchema.for_rows(OLD, "http://127.0.0.1:1", {"max.retries": 0})

    with pytest.raises(ExternalSystemError, match="doesn't answer") as failed:
        reads.deserialize(b"\x00\x00\x00\x00\x01\x02\x02x")
    assert "127.0.0.1:1" in failed.value.hint and not is_of_the_record(failed.value)


@pytest.mark.parametrize(
    ("url", "properties", "why"),
    [
        ("", {}, "has a URL"),
        ("registry:8081", {}, "Invalid url"),
        ("http://r", {"nosuch": "1"}, "nosuch"),
        ("http://r", {"schema.registry.ssl.truststore.location": "t.jks"}, "no key stores of Java's"),
        ("http://r", {"ssl.ca.location": "/nowhere/ca.pem"}, "settings of the schema registry are wrong"),
        ("http://r", {"basic.auth.user.info": "alice"}, "basic.auth.user.info"),
    ],
)
def test_wrong_settings_are_refused_where_the_program_says_them(url, properties, why):
    with pytest.raises(JobGraphError, match=why):
        SchemaRegistry(url, properties)


def test_properties_have_javas_names_too():
    given = {"schema.registry.basic.auth.user.info": "a:b", "basic.auth.credentials.source": "USER_INFO", "max.retries": "2"}

    assert pickle.loads(pickle.dumps(SchemaRegistry("http://r", given)))._settings == {
        "url": "http://r",
        "basic.auth.user.info": "a:b",
        "max.retries": 2.0,
    }


@pytest.mark.parametrize("make", [lambda: Subject.named(""), lambda: Subject.of_topic(None), lambda: Subject.of(7)])
def test_a_subject_has_a_name(make):
    with pytest.raises(JobGraphError, match="takes a name"):
        make()


class Guarded(BaseHTTPRequestHandler):
    """A registry with one schema, for those who log in."""

    def do_GET(self):
        known = self.headers.get("Authorization") == f"Basic {b64encode(b'alice:secret').decode()}"
        answer = {"schema": OLD} if known else {"error_code": 401, "message": "Unauthorized"}
        data = json.dumps(answer).encode()
        self.server.asked.append(self.path)
        self.send_response(200 if known else 401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


@pytest.fixture
def guarded(certificate):  # noqa: F811 - the fixture
    server = ThreadingHTTPServer(("127.0.0.1", 0), Guarded)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    server.socket, server.asked = context.wrap_socket(server.socket, server_side=True), []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server, f"https://127.0.0.1:{server.server_port}", certificate[0]
    server.shutdown()
    server.server_close()


def test_one_logs_in_over_tls_and_a_schema_is_asked_for_once(guarded):
    server, url, root = guarded
    message = b"\x00\x00\x00\x00\x07\x0e\x02a"
    login = {"basic.auth.user.info": "alice:secret", "ssl.ca.location": root, "max.retries": 0}
    reads = ConfluentRegistryAvroDeserializationSchema.for_rows(NEW, url, login)

    assert [reads.deserialize(message) for _ in range(3)] == [Row(more="d", id=7)] * 3
    assert len(server.asked) == 1
    wrong = ConfluentRegistryAvroDeserializationSchema.for_rows(NEW, url, {**login, "basic.auth.user.info": "alice:no"})
    with pytest.raises(ExternalSystemError, match="refuses: Unauthorized") as refused:
        wrong.deserialize(message)
    assert "basic.auth.user.info" in refused.value.hint
    stranger = ConfluentRegistryAvroDeserializationSchema.for_rows(NEW, url, {"max.retries": 0})
    with pytest.raises(ExternalSystemError, match="(?i)certificate"):
        stranger.deserialize(message)


class Answering(BaseHTTPRequestHandler):
    """Answers everything with what its server is set to."""

    def do_GET(self):
        code, data = self.server.answer(self.path) if callable(self.server.answer) else self.server.answer
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


@pytest.fixture
def proxied():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


KINDS = {
    "avro": lambda url: ConfluentRegistryAvroDeserializationSchema.for_rows(NEW, url, {"max.retries": 0}),
    "json": lambda url: ConfluentRegistryJsonDeserializationSchema(PAIR, url, {"max.retries": 0}),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "answer",
    [
        (404, b"<html>404 page not found</html>"),
        (404, b'{"error_code": 404, "message": "HTTP 404 Not Found"}'),
        (422, b'{"error_code": 42201, "message": "no"}'),
        (302, b""),
        (200, b"<html>log in</html>"),
        (200, b""),
        (200, b"{}"),
        (200, b"[]"),
    ],
)
def test_a_proxys_answer_is_no_matter_of_the_record(proxied, kind, answer):
    server, url = proxied
    server.answer = answer
    reads = KINDS[kind](url)

    for _ in range(2):  # nor is it kept
        with pytest.raises(ExternalSystemError, match="registry") as failed:
            reads.deserialize(b"\x00\x00\x00\x00\x07\x0e\x02a")
        assert not is_of_the_record(failed.value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [7, 1 << 31])
def test_an_id_that_the_registry_does_not_know_is_a_bad_record(proxied, kind, number):
    server, url = proxied
    server.answer = (404, b'{"error_code": 40403, "message": "Schema not found"}') if number == 7 else (404, b"a wrong path")

    with pytest.raises(RecordError, match=f"{url} doesn't know the schema that a message names: {number}") as refused:
        KINDS[kind](url).deserialize(struct.pack(">bI", 0, number) + b"\x0e\x02a")
    assert f"curl {url}/schemas/ids/{number}" in refused.value.hint


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("message", [b"", b"\x00\x00", b'{"id": 7}', b"\x01\x00\x00\x00\x07\x0e"])
def test_a_message_that_names_no_schema_is_refused_in_a_sentence(kind, message):
    with pytest.raises(RecordError, match="doesn't begin with the zero and the number of a schema"):
        KINDS[kind]("http://127.0.0.1:1").deserialize(message)


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_may_name_its_schema_by_a_uuid(proxied, kind):
    server, url = proxied
    written = {"avro": ("AVRO", OLD, b"\x0e\x02a"), "json": ("JSON", JSON, b'{"id": 7, "w": "a"}')}[kind]
    guid, found = uuid.uuid4(), {"schemaType": written[0], "schema": written[1]}
    server.answer = lambda path: (200, json.dumps(found).encode()) if f"guids/{guid}" in path else (404, b"{}")

    assert KINDS[kind](url).deserialize(b"\x01" + guid.bytes + written[2]).id == 7


TOO_FINE = schema(
    {"name": "id", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 9}}, name="n.W"
)
NO_AVRO = {
    "no type": ("AVRO", '{"type": "nonsense"}', "A schema of Avro is wrong"),
    "a decimal with a scale above its precision": ("AVRO", TOO_FINE, "scale must be less than or equal to the precision"),
    "JSON Schema": ("JSON", JSON, "its schema is one of JSON"),
}


@pytest.mark.parametrize("case", NO_AVRO)
def test_a_schema_of_somebody_else_that_is_wrong_is_a_matter_of_the_record(proxied, case):
    server, url = proxied
    kind, text, why = NO_AVRO[case]
    server.answer = (200, json.dumps({"schemaType": kind, "schema": text}).encode())

    with pytest.raises(RecordError, match=why) as refused:
        KINDS["avro"](url).deserialize(b"\x00\x00\x00\x00\x07\x0e\x02a")
    assert is_of_the_record(refused.value)


REFERRING = {
    "/schemas/ids/7": (
        {"type": "record", "name": "n.W", "fields": [{"name": "a", "type": "n.A"}, {"name": "b", "type": "n.B"}]},
        ["n.B", "n.A"],
    ),
    "/subjects/n.B/versions/1": ({"type": "record", "name": "n.B", "fields": [{"name": "a", "type": "n.A"}]}, ["n.A"]),
    "/subjects/n.A/versions/1": ({"type": "record", "name": "n.A", "fields": [{"name": "i", "type": "int"}]}, []),
}
"""A registry whose schema 7 names two others, one of which names the other."""


def referring(path):
    found, names = REFERRING[path.partition("?")[0]]
    references = [{"name": name, "subject": name, "version": 1} for name in names]
    whole = {"schema": json.dumps(found), "references": references, "subject": "s", "version": 1, "id": 1}
    return 200, json.dumps(whole).encode()


def test_defaults_are_data_where_schemas_refer_to_others_too(proxied):
    server, url = proxied
    server.answer = referring
    a = {"type": "record", "name": "A", "fields": [{"name": "i", "type": "long"}]}
    b = {"type": "record", "name": "B", "fields": [{"name": "a", "type": "A"}]}
    more = {"name": "more", "type": {"type": "array", "items": "bytes"}, "default": ["\u00ff"]}
    wanted = schema({"name": "a", "type": a}, {"name": "b", "type": b}, more, name="n.W")
    reads = ConfluentRegistryAvroDeserializationSchema.for_rows(wanted, url, {"max.retries": 0})

    first, second = (reads.deserialize(b"\x00\x00\x00\x00\x07\x02\x04") for _ in range(2))

    assert first == second == Row(a=Row(i=1), b=Row(a=Row(i=2)), more=[b"\xff"])
    assert first.more is not second.more
