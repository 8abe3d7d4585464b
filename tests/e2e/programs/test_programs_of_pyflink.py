"""Programs as people write them for PyFlink: functions of loops, elements with two owners, states declared in two places."""

from __future__ import annotations

from collections import defaultdict

import pytest

from pystate.common import Types
from pystate.common.errors import JobGraphError
from pystate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
from pystate.datastream.state import ReducingStateDescriptor
from tests.engines import on_both_engines

ANY = Types.PICKLED_BYTE_ARRAY()


class Keep(KeyedProcessFunction):
    """Counts with one state that is declared in two places, and hands on what it keeps."""

    def open(self, runtime_context):
        self.context = runtime_context
        self.kept = runtime_context.get_state(ValueStateDescriptor("kept", ANY))

    def process_element(self, value, ctx):
        self.context.get_reducing_state(ReducingStateDescriptor("count", lambda a, b: a + b, Types.LONG())).add(1)
        count = self.context.get_reducing_state(
            ReducingStateDescriptor("count", lambda a, b: a + b, Types.LONG())  # the same in another line
        )
        yield [*(self.kept.value() or ["nothing"]), count.get()]
        self.kept.update(value)
        yield value


@pytest.mark.slow
@on_both_engines
def test_each_function_has_its_own_variables_and_each_consumer_its_own_elements(run_job):
    found = defaultdict(list)

    def collect(name):
        return lambda frame, epoch: found[name].extend(row[0] for row in frame.collect())

    def spoil(value):
        value.append("spoiled")
        return value

    def run():
        env = StreamExecutionEnvironment.get_execution_environment()
        numbers = env.from_collection([1, 2, 3], Types.LONG())
        for turn in range(3):
            numbers = numbers.map(lambda number: number + turn, Types.LONG())  # noqa: B023 - as programs do
        numbers.for_each_batch(collect("numbers"))
        lists = env.from_collection([["a", 1], ["a", 2]])
        lists.map(spoil).map(str, Types.STRING()).for_each_batch(collect("changes"))
        lists.map(str, Types.STRING()).for_each_batch(collect("other"))
        kept = lists.key_by(lambda value: value[0], Types.STRING()).process(Keep())
        kept.map(spoil).map(str, Types.STRING()).for_each_batch(collect("kept"))
        env.execute("as in PyFlink")

    run_job(run).result()
    assert sorted(found["numbers"]) == [4, 5, 6]
    assert sorted(found["changes"]) == ["['a', 1, 'spoiled']", "['a', 2, 'spoiled']"]
    assert sorted(found["other"]) == ["['a', 1]", "['a', 2]"]
    assert found["kept"] == [
        "['nothing', 1, 'spoiled']",
        "['a', 1, 'spoiled']",
        "['a', 1, 2, 'spoiled']",
        "['a', 2, 'spoiled']",
    ]


def test_what_a_data_frame_says_of_itself_is_checked_where_the_program_names_it(spark, tmp_path):
    frame = spark.readStream.schema("order long, customer long").json(str(tmp_path))
    env = StreamExecutionEnvironment()

    orders = env.from_data_frame(frame, bounded=True)
    assert orders.get_type() == Types.ROW_NAMED(["order", "customer"], [Types.LONG(), Types.LONG()])
    with pytest.raises(JobGraphError, match="the rows have order, customer") as error:
        orders.key_by("custmer")
    assert error.value.hint == "did you mean 'customer'?"
    with pytest.raises(JobGraphError, match="keeps state in Spark"):
        env.from_data_frame(frame.groupBy("customer").count(), bounded=True)
    with pytest.raises(JobGraphError, match="the columns are order, customer") as error:
        env.from_data_frame(frame, event_time="oder")
    assert error.value.hint == "did you mean 'order'?"
