"""Keeps a Delta table equal to a table of PostgreSQL, by the changes that Debezium's connector writes to Kafka.

    pystate run examples/postgres_to_delta.py BROKERS TOPIC TABLE

The table of PostgreSQL is `CREATE TABLE accounts (id BIGINT PRIMARY KEY, owner TEXT, cents NUMERIC(12, 2), opened DATE,
at TIMESTAMP, tags TEXT[])`, with `ALTER TABLE accounts REPLICA IDENTITY FULL`; the connector has the properties
`decimal.handling.mode=string` and `time.precision.mode=isostring`. docs/formats.md says why.
"""

import sys

from pystate.common import Row, Types
from pystate.common.row import RowKind
from pystate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
from pystate.datastream.connectors.delta import DeltaSink
from pystate.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from pystate.datastream.formats.change_data import DebeziumJsonDeserializationSchema

COLUMNS = {
    "id": Types.LONG(),
    "owner": Types.STRING(),
    "cents": Types.BIG_DEC(),
    "opened": Types.SQL_DATE(),
    "at": Types.SQL_TIMESTAMP(),
    "tags": Types.OBJECT_ARRAY(Types.STRING()),
}
ACCOUNT = Types.ROW_NAMED(list(COLUMNS), list(COLUMNS.values()))
SOURCE = Types.MAP(Types.STRING(), Types.STRING())
CHANGE = Types.ROW_NAMED([*COLUMNS, "source"], [*COLUMNS.values(), SOURCE])


class Newest(KeyedProcessFunction):
    """Lets each change of a row go on once: after a crash the connector writes the latest ones again.

    PostgreSQL's positions (LSNs) rise for each key, though not over keys: transactions come in the order in which they end.
    What a snapshot reads has the position at which the snapshot began, which may be after that of a change still to come: it
    always goes on, and any change may follow it.
    """

    def open(self, runtime_context):
        self.latest = runtime_context.get_state(ValueStateDescriptor("latest", Types.LONG()))

    def process_element(self, value, ctx):
        kind = value.get_row_kind()
        if value.source["snapshot"] != "false":
            self.latest.clear()
        else:
            is_after = kind in (RowKind.INSERT, RowKind.UPDATE_AFTER)
            position = 2 * int(value.source["lsn"]) + is_after  # both rows of an update have its position
            if position <= (self.latest.value() or 0):
                return
            self.latest.update(position)
        yield Row.of_kind(kind, **{name: value[name] for name in COLUMNS})


def accounts(env, brokers, topic, schema=None):
    """Return the stream of changes, each once."""
    values = schema or DebeziumJsonDeserializationSchema(CHANGE, metadata={"source": "source.properties"})
    source = KafkaSource.builder().set_bootstrap_servers(brokers).set_topics(topic)
    source.set_starting_offsets(KafkaOffsetsInitializer.earliest()).set_value_only_deserializer(values)
    changes = env.from_source(source.build(), None, "changes", type_info=CHANGE).uid("changes")
    return changes.key_by(lambda row: row.id, key_type=Types.LONG()).process(Newest(), output_type=ACCOUNT).uid("newest")


def main():
    brokers, topic, table = sys.argv[1:]
    env = StreamExecutionEnvironment.get_execution_environment()
    sink = DeltaSink.for_table(table).with_row_type(ACCOUNT).with_upsert_by("id").build()
    accounts(env, brokers, topic).sink_to(sink).uid("accounts")
    env.execute("PostgreSQL to Delta")


if __name__ == "__main__":
    main()
