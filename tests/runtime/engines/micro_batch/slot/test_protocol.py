"""The frames between an exchange and a slot."""

import pyarrow as pa

from pystate.runtime.engines.micro_batch.slot.protocol import receive_batches, receive_kept, send_kept
from tests.runtime.slot.harness import send_batches


class Wire:
    """A connection to oneself."""

    def __init__(self):
        self.frames = []

    def send_bytes(self, data):
        self.frames.append(bytes(data))

    def recv_bytes(self):
        return self.frames.pop(0)


def batch(**columns):
    return pa.RecordBatch.from_pydict(columns)


def test_batches_of_two_inputs_keep_their_schemas_and_their_order():
    sent = [
        (0, batch(value=[1, 2])),
        (1, batch(name=["x"], amount=[1.5])),
        (1, batch(name=["y"], amount=[2.5])),
        (0, batch(value=[3])),
        (1, batch(name=["z"], amount=[3.5])),
    ]
    wire = Wire()
    assert send_batches(wire, sent) == 6
    received = list(receive_batches(wire))
    assert [(index, got.to_pydict()) for index, got in received] == [(index, put.to_pydict()) for index, put in sent]
    assert wire.frames == []


def test_an_epoch_without_rows_is_an_end_alone():
    wire = Wire()
    assert send_batches(wire, []) == 0
    assert wire.frames == [b""]
    assert list(receive_batches(wire)) == []


def test_batches_without_rows_cross_too():
    wire = Wire()
    empty = batch(value=pa.array([], pa.int64()))
    assert send_batches(wire, [(1, empty)]) == 0
    assert [(index, got.num_rows) for index, got in receive_batches(wire)] == [(1, 0)]


def test_kept_output_crosses_without_an_index():
    wire = Wire()
    kept = [batch(value=[1]), batch(value=[2, 3])]
    send_kept(wire, kept[0].schema, [b.serialize().to_pybytes() for b in kept])
    assert [b.to_pydict() for b in receive_kept(wire)] == [b.to_pydict() for b in kept]
