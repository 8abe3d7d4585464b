"""Records that can't be deserialized, and what else a record has beside its value: in slots, and where Spark reads."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pystate.common import Row, Types
from pystate.common.errors import ExternalSystemError, JobGraphError, RecordError
from pystate.common.serialization import DeserializationSchema, SimpleStringSchema
from pystate.connectors.bad_records import BAD_RECORD, BadRecords
from pystate.connectors.kafka.record_deserialization import ConsumerRecord, KafkaRecordDeserializationSchema
from pystate.connectors.kafka.spark.kafka_decoder import PARTS, KafkaDecoder
from pystate.core.api.output_tag import OutputTag
from pystate.core.metrics.operator_metrics import OperatorMetrics, OperatorScope
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.connectors.kafka import KafkaSource
from tests.connectors.kafka.source.fake_consumer import Message
from tests.connectors.kafka.source.test_partition_reader import Reading

TAG = OutputTag("bad", BAD_RECORD)
value_only = KafkaRecordDeserializationSchema.value_only


class Number(DeserializationSchema):
    produced_type = Types.LONG()

    def deserialize(self, message):
        return int(message)


class Letters(DeserializationSchema):
    """Several elements for each value; the letters before a bad one are not to be seen."""

    makes_several = True

    def deserialize(self, message):
        for letter in message.decode():
            if letter == "!":
                raise ValueError("it shouts")
            yield letter


class Whole(KafkaRecordDeserializationSchema):
    def deserialize(self, record):
        if record.key == b"skip":
            return None
        return [tuple(record)]


class NoRegistry(DeserializationSchema):
    def deserialize(self, message):
        raise self.error


def bad(value, offset, reason, key=None, at=None):
    return Row(value=value, key=key, source="t", partition=0, position=offset, timestamp=at, reason=reason)


SENT = [(0, b"1", b"k", []), (1, b"x", b"key", []), (2, None, None, []), (3, b"3", None, [])]
"""Offset, value, key and headers of records; their time is 100 and the offset."""
WRONG = "ValueError: invalid literal for int() with base 10: b'x'"


class Slots:
    """Reads records as a source in slots does."""

    def __init__(self, schema, policy):
        self.side = []
        self.reading = Reading((0, 0), schema=schema, bad_records=policy, timed=True)
        self.reading.output.collect_side = lambda tag, row, timestamp=None: self.side.append((tag, row, timestamp))

    def read(self, sent):
        self.reading.poll(*(Message(0, at, value, 100 + at, key=key, headers=headers) for at, value, key, headers in sent))
        return [(element, time) for _, element, time in self.reading.output.elements]

    def count(self):
        return self.reading.context.gauges["numRecordsInErrors"]()


class Spark:
    """Reads records as a stage of the micro-batch engine does."""

    def __init__(self, schema, policy):
        self.side, self.metrics = [], OperatorMetrics(OperatorScope("uid", ()))
        self.decoder = KafkaDecoder(schema, policy)

    def metric_group(self):
        return self.metrics.group

    def collect_side(self, tag, row, timestamp=None):
        self.side.append((tag, row, timestamp))

    def read(self, sent):
        offsets, values, keys, headers = zip(*sent, strict=True)
        times = [100 + at for at in offsets]
        columns = {"value": pa.array(values, pa.binary()), "timestamp": pa.array(times)}
        if self.decoder.of_records:
            pairs = [[{"key": key, "value": value} for key, value in some] for some in headers]
            header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
            parts = [["t"] * len(sent), [0] * len(sent), offsets, times]
            parts += [pa.array(keys, pa.binary()), pa.array(pairs, header)]
            columns["record"] = pa.StructArray.from_arrays([pa.array(part) for part in parts], names=list(PARTS))
        batch = pa.RecordBatch.from_pydict(columns)
        found = list(self.decoder.decode(batch, self))
        if self.decoder.makes_several:
            return [(element, time) for elements, time in found for element in elements]
        return [(element, time) for element, time in found if element is not None]

    def count(self):
        return next(one.value for one in self.metrics.samples() if one.name == "numRecordsInErrors")


@pytest.fixture(params=[Slots, Spark])
def reader(request):
    return lambda schema, policy=None: request.param(schema, policy or BadRecords.fail())


def test_such_records_fail_the_job_where_nobody_says_otherwise(reader):
    with pytest.raises(ValueError, match="invalid literal"):
        reader(value_only(Number())).read(SENT)


def test_they_are_left_out_and_counted(reader):
    reading = reader(value_only(Number()), BadRecords.skip())

    assert reading.read(SENT) == [(1, 100), (3, 103)]
    assert (reading.count(), reading.side) == (1, [])


def test_they_go_to_a_side_output_with_all_that_is_known_of_them(reader):
    reading = reader(value_only(Number()), BadRecords.to_side_output(TAG))

    assert reading.read(SENT) == [(1, 100), (3, 103)]
    assert reading.side == [(TAG, bad(b"x", 1, WRONG, b"key", 101), 101)]
    assert reading.count() == 1


def test_the_sentence_of_an_error_is_the_reason(reader):
    class Refusing(DeserializationSchema):
        def deserialize(self, message):
            raise RecordError("It is no order.", hint="mend it")

    reading = reader(value_only(Refusing()), BadRecords.to_side_output(TAG))

    assert reading.read(SENT[:1]) == []
    assert [row["reason"] for _, row, _ in reading.side] == ["It is no order."]


@pytest.mark.parametrize("error", [ExternalSystemError("no answer"), OSError("connection refused"), MemoryError()])
def test_what_a_schema_needs_and_does_not_get_is_no_matter_of_the_record(reader, error):
    schema = NoRegistry()
    schema.error = error

    with pytest.raises(type(error)):
        reader(value_only(schema), BadRecords.skip()).read(SENT)


def test_a_value_makes_several_elements_or_is_refused_as_a_whole(reader):
    sent = [(0, b"ab", None, []), (1, b"c!", None, []), (2, None, None, []), (3, b"", None, []), (4, b"d", None, [])]
    reading = reader(value_only(Letters()), BadRecords.to_side_output(TAG))

    assert reading.read(sent) == [("a", 100), ("b", 100), ("d", 104)]
    assert [row["position"] for _, row, _ in reading.side] == [1]
    with pytest.raises(ValueError, match="it shouts"):
        reader(value_only(Letters())).read(sent)


def test_a_schema_of_records_sees_tombstones_keys_times_and_headers(reader):
    headers = [("a", b"1"), ("b", None), ("a", b"2")]
    sent = [(0, None, b"k", headers), (1, b"v", b"skip", []), (2, b"v", None, [])]

    assert reader(Whole()).read(sent) == [
        (("t", 0, 0, 100, b"k", None, tuple(headers)), 100),
        (("t", 0, 2, 102, None, b"v", ()), 102),
    ]


def test_a_source_says_whether_it_has_a_side_output():
    env = StreamExecutionEnvironment.get_execution_environment()
    made = KafkaSource.builder().set_bootstrap_servers("here:1").set_topics("t").set_value_only_deserializer(Number())
    plain = env.from_source(made.build(), None, "in")
    side = env.from_source(made.set_bad_records(BadRecords.to_side_output(TAG)).build(), None, "in").get_side_output(TAG)

    assert side._transformation.output_type == BAD_RECORD
    with pytest.raises(JobGraphError, match="'in' has no side outputs"):
        plain.get_side_output(TAG)


@pytest.mark.parametrize(
    "call",
    [
        lambda: BadRecords.to_side_output(OutputTag("bad", Types.STRING())),
        lambda: KafkaSource.builder().set_bad_records("skip"),
        lambda: KafkaSource.builder().set_deserializer(SimpleStringSchema()),
        lambda: KafkaRecordDeserializationSchema.value_only(Whole()),
    ],
)
def test_what_is_no_policy_and_no_schema_is_refused_where_the_program_says_it(call):
    with pytest.raises(JobGraphError) as refused:
        call()
    assert refused.value.hint


def test_a_record_has_names():
    assert ConsumerRecord("t", 0, 1, None, None, b"v").headers == ()
