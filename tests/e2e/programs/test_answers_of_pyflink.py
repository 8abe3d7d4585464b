"""Programs that PyFlink 2.3.0 was given, too, on real Spark: the lines are those that it printed."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest
from pyspark.sql import functions as F  # noqa: N812 - the name everyone uses

from pystate.common import Row, Types
from pystate.core.records.key_column import KeyColumn
from pystate.core.state.keys.keys import KeyCodec
from pystate.datastream import KeyedProcessFunction, MapFunction, StreamExecutionEnvironment, ValueStateDescriptor
from pystate.runtime.engines.micro_batch.spark.translator import _key_group


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield ctx.get_current_key(), self.count.value()


class Names(MapFunction):
    def open(self, runtime_context):
        self.names = runtime_context.get_task_name(), runtime_context.get_task_name_with_subtasks()

    def map(self, value):
        return self.names


def key_of(number):
    return None if number is None or number == 2 else number


@pytest.mark.slow
def test_a_program_prints_what_it_prints_in_flink(run_job, capsys):
    def run():
        env = StreamExecutionEnvironment.get_execution_environment()
        numbers = env.from_collection([1, 2, None, None])
        numbers.key_by(key_of).process(Count()).uid("a").print("untyped")
        numbers.key_by(key_of, Types.LONG()).process(Count()).uid("b").print("long")
        names = Types.TUPLE([Types.STRING(), Types.STRING()])
        numbers.rebalance().map(Names(), output_type=names).name("mine").print("names").name("out")
        rows = env.from_collection((row for row in (Row(1, 1.5), (2, 1e10))), Types.ROW([Types.INT(), Types.DOUBLE()]))
        rows.map(lambda row: (str(row), row.f0)).print("row")
        pair = Types.TUPLE([Types.INT(), Types.STRING()])
        rows.map(lambda row: (row.f0 + 0.7, None), output_type=pair).print("tuple")
        rows.map(lambda row: row.f1, output_type=Types.DOUBLE()).key_by(lambda value: 0).print("double")
        env.from_collection([]).print("nothing")
        env.execute("answers")

    run_job(run, {"parallelism.default": "1"}).result()
    lines = defaultdict(list)
    for line in capsys.readouterr().out.splitlines():
        mark, _, text = line.partition("> ")
        lines[mark].append(text)
    counts = Counter(["(1, 1)", "(None, 1)", "(None, 2)", "(None, 3)"])
    assert (Counter(lines.pop("untyped")), Counter(lines.pop("long"))) == (counts, counts)
    assert lines == {
        "row": ["('Row(f0=1, f1=1.5)', 1)", "('Row(f0=2, f1=10000000000.0)', 2)"],
        "tuple": ["(1,null)", "(2,null)"],
        "double": ["1.5", "1.0E10"],
        "names": ["(mine -> Sink: out,mine -> Sink: out (1/1)#0)"] * 4,
    }


@pytest.mark.parametrize(
    ("key_type", "keys"),
    [
        (Types.STRING(), [None, "", "a"]),
        (Types.LONG(), [None, 0, 7]),
        (Types.DOUBLE(), [None, 0.0]),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), [None, b"", b"\x00"]),
        (Types.TUPLE([Types.STRING()]), [None, (None,)]),
        (None, [None, "", 0, (None,)]),
    ],
    ids=str,
)
def test_the_jvm_puts_none_into_the_key_group_that_python_says(spark, key_type, keys):
    column, codec = KeyColumn("key", key_type), KeyCodec(key_type)
    prepare = column.preparer() or (lambda key: key)
    prepared = column.encode([prepare(key) for key in keys], "test").to_pylist()
    sql_type = column.field().type
    names = {"string": "string", "int64": "bigint", "double": "double", "binary": "binary"}
    frame = spark.createDataFrame([(key,) for key in prepared], f"key {names[str(sql_type)]}")
    found = [row[0] for row in frame.coalesce(1).select(F.expr(_key_group(column, 100))).collect()]
    assert found == [codec.key_group(codec.internal(key), 100) for key in keys]
