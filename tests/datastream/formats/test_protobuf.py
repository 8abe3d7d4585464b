"""Messages of Protobuf as rows."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest
from google.protobuf import (
    api_pb2,
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    type_pb2,
    wrappers_pb2,
)

from pystate.common import Row, Types
from pystate.common.errors import JobGraphError, RecordError
from pystate.common.time import Instant
from pystate.datastream.formats.protobuf import ProtobufRowDeserializationSchema, ProtobufRowSerializationSchema

SCALARS = {
    "double": (1, Types.DOUBLE(), 0.5),
    "float": (2, Types.FLOAT(), 0.25),
    "int64": (3, Types.LONG(), -(2**63)),
    "uint64": (4, Types.BIG_INT(), 2**64 - 1),
    "int32": (5, Types.INT(), -(2**31)),
    "fixed64": (6, Types.BIG_INT(), 2**64 - 1),
    "fixed32": (7, Types.LONG(), 2**32 - 1),
    "bool": (8, Types.BOOLEAN(), True),
    "string": (9, Types.STRING(), "ä"),
    "bytes": (12, Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\x00\xff"),
    "uint32": (13, Types.LONG(), 2**32 - 1),
    "sfixed32": (15, Types.INT(), -5),
    "sfixed64": (16, Types.LONG(), -5),
    "sint32": (17, Types.INT(), -5),
    "sint64": (18, Types.LONG(), -5),
}


def order_class():
    """Generate what protoc would of a file with each kind of field."""
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    file.dependency.extend([timestamp_pb2.DESCRIPTOR.name, wrappers_pb2.DESCRIPTOR.name])
    state = file.enum_type.add(name="State")
    for number, name in enumerate(("NEW", "PAID")):
        state.value.add(name=name, number=number)
    item = file.message_type.add(name="Item")
    item.field.add(name="sku", number=1, type=9, label=1)
    order = file.message_type.add(name="Order")
    entry = order.nested_type.add(name="TagsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=9, label=1)
    entry.field.add(name="value", number=2, type=5, label=1)
    order.oneof_decl.add(name="_perhaps")
    for number, (name, (kind, _, _)) in enumerate(SCALARS.items(), 1):
        order.field.add(name=name, number=number, type=kind, label=1)
    order.field.add(name="perhaps", number=30, type=5, label=1, oneof_index=0, proto3_optional=True)
    order.field.add(name="state", number=31, type=14, label=1, type_name=".shop.State")
    order.field.add(name="item", number=32, type=11, label=1, type_name=".shop.Item")
    order.field.add(name="items", number=33, type=11, label=3, type_name=".shop.Item")
    order.field.add(name="numbers", number=34, type=5, label=3)
    order.field.add(name="tags", number=35, type=11, label=3, type_name=".shop.Order.TagsEntry")
    order.field.add(name="at", number=36, type=11, label=1, type_name=".google.protobuf.Timestamp")
    order.field.add(name="wrapped", number=37, type=11, label=1, type_name=".google.protobuf.Int64Value")
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


ORDER = order_class()
ITEM = Types.ROW_NAMED(["sku"], [Types.STRING()])
REST = {
    "perhaps": (Types.INT(), 0),
    "state": (Types.STRING(), "PAID"),
    "item": (ITEM, Row(sku="")),
    "items": (Types.OBJECT_ARRAY(ITEM), [Row(sku="a"), Row(sku="b")]),
    "numbers": (Types.OBJECT_ARRAY(Types.INT()), [1, 2]),
    "tags": (Types.MAP(Types.STRING(), Types.INT()), {"a": 1}),
    "at": (Types.INSTANT(), Instant(1_700_000_000, 7)),
    "wrapped": (Types.LONG(), 0),
}
ROW = Row(**{name: value for name, (_, _, value) in SCALARS.items()}, **{name: value for name, (_, value) in REST.items()})


def test_each_kind_of_field_has_a_type_here_and_comes_back():
    reads, writes = ProtobufRowDeserializationSchema(ORDER), ProtobufRowSerializationSchema(ORDER)
    types = [kind for _, kind, _ in SCALARS.values()] + [kind for kind, _ in REST.values()]

    assert reads.produced_type == Types.ROW_NAMED([*SCALARS, *REST], types)
    assert reads.deserialize(writes.serialize(ROW)) == ROW
    assert ORDER.FromString(writes.serialize(ROW)).items[1].sku == "b"


def test_what_is_not_set_is_none_where_a_message_can_tell():
    read = ProtobufRowDeserializationSchema(ORDER).deserialize(b"")

    assert [read[name] for name in ("perhaps", "item", "at", "wrapped")] == [None] * 4
    assert [read[name] for name in ("int32", "string", "state", "items", "tags")] == [0, "", "NEW", [], {}]
    assert ProtobufRowSerializationSchema(ORDER).serialize(read) == b""


def test_a_value_of_an_enum_that_this_program_does_not_know_keeps_its_number():
    message = ORDER()
    message.state = 7
    row = ProtobufRowDeserializationSchema(ORDER).deserialize(message.SerializeToString())

    assert row["state"] == "7"
    assert ProtobufRowSerializationSchema(ORDER).serialize(row) == message.SerializeToString()
    row["state"] = str(1 << 31)
    with pytest.raises(RecordError, match="state"):
        ProtobufRowSerializationSchema(ORDER).serialize(row)


def test_other_processes_need_no_module_of_the_class(tmp_path):
    reads, writes = ProtobufRowDeserializationSchema(ORDER), ProtobufRowSerializationSchema(ORDER)
    (tmp_path / "both").write_bytes(pickle.dumps((reads, writes, ROW)))
    program = (
        "import pickle, sys; r, w, row = pickle.load(open(sys.argv[1], 'rb')); assert r.deserialize(w.serialize(row)) == row"
    )

    subprocess.run([sys.executable, "-c", program, str(tmp_path / "both")], check=True)


def test_classes_that_protoc_generated_are_taken():
    method = api_pb2.Method(name="m", request_streaming=True, syntax=type_pb2.SYNTAX_PROTO3)
    method.options.add(name="o").value.Pack(type_pb2.EnumValue(name="e"))
    row = ProtobufRowDeserializationSchema(api_pb2.Method).deserialize(method.SerializeToString())

    assert (row["name"], row["request_streaming"], row["syntax"]) == ("m", True, "SYNTAX_PROTO3")
    assert row["options"][0]["value"]["type_url"] == "type.googleapis.com/google.protobuf.EnumValue"
    assert ProtobufRowSerializationSchema(api_pb2.Method).serialize(row) == method.SerializeToString()


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("int32", 2**31, "INT goes from"),
        ("state", "LOST", "none of NEW, PAID"),
        ("at", 5, "no Instant"),
        ("uint64", -1, "uint64"),
    ],
)
def test_values_that_do_not_fit_are_refused(name, value, why):
    with pytest.raises(RecordError, match=why):
        ProtobufRowSerializationSchema(ORDER).serialize(Row(**{**ROW.as_dict(), name: value}))


def test_bytes_that_are_no_message_are_refused():
    with pytest.raises(RecordError, match=r"no message shop\.Order of Protobuf"):
        ProtobufRowDeserializationSchema(ORDER).deserialize(b"\xff")


@pytest.mark.parametrize(("given", "why"), [(str, "generated class"), (struct_pb2.Struct, "contains itself")])
def test_what_has_no_rows_is_refused_where_the_program_says_it(given, why):
    with pytest.raises(JobGraphError, match=why) as refused:
        ProtobufRowDeserializationSchema(given)
    assert refused.value.hint


def bill_class():
    """Generate what protoc would of a file of proto2 with a required field in a list, and a oneof."""
    file = descriptor_pb2.FileDescriptorProto(name="bill.proto", package="shop", syntax="proto2")
    file.message_type.add(name="Line").field.add(name="sku", number=1, type=9, label=2)
    bill = file.message_type.add(name="Bill")
    bill.oneof_decl.add(name="paid")
    for number, name in enumerate(("cash", "card"), 1):
        bill.field.add(name=name, number=number, type=5, label=1, oneof_index=0)
    bill.field.add(name="lines", number=3, type=11, label=3, type_name=".shop.Line")
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Bill"))


BILL = bill_class()


def test_a_message_without_a_required_field_is_refused():
    reads = ProtobufRowDeserializationSchema(BILL)

    assert reads.deserialize(b"\x08\x01\x1a\x03\x0a\x01a") == Row(cash=1, card=None, lines=[Row(sku="a")])
    with pytest.raises(RecordError, match=r"lacks what its class requires: lines\[0\]\.sku"):
        reads.deserialize(b"\x1a\x00")


def test_a_row_sets_one_member_of_a_oneof():
    writes = ProtobufRowSerializationSchema(BILL)

    assert writes.serialize(Row(cash=None, card=0, lines=[])) == b"\x10\x00"
    with pytest.raises(RecordError, match="'cash' and 'card' are set, and the oneof 'paid' holds one of them"):
        writes.serialize(Row(cash=1, card=0, lines=[]))
