"""Harnesses of the operators of a program, and the replay of one record."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pystate.common.errors import JobGraphError, PystateError, StateError, UsageError
from pystate.core.api.executor import registered_executor
from pystate.testing import Program
from pystate.testing.debug_process import breakpoints, replay
from pystate.testing.failed_records import RecordCall
from pystate.testing.written_test import StateBefore, harness_test
from tests.core.snapshot.snapshots import COUNT, WORDS, write_savepoint

JOB = """
from pystate.common import Row, Types
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.functions import KeyedProcessFunction
from pystate.datastream.output_tag import OutputTag
from pystate.datastream.state import ListStateDescriptor, MapStateDescriptor, ReducingStateDescriptor, ValueStateDescriptor

ODD = OutputTag("odd")


class Mean(KeyedProcessFunction):
    def open(self, ctx):
        self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.seen = ctx.get_map_state(MapStateDescriptor("seen", Types.STRING(), Types.LONG()))
        self.last = ctx.get_list_state(ListStateDescriptor("last", Types.STRING()))
        self.sum = ctx.get_reducing_state(ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG()))

    def process_element(self, value, ctx):
        # the first statement is the next one
        count = self.count.value() or 0
        self.count.update(count + 1)
        if count % 2:
            yield ODD, value[0]
        yield value[0], 100 // value[1], count, ctx.timestamp()


env = StreamExecutionEnvironment.get_execution_environment()
words = env.from_collection([("key-1", 3)])
means = words.key_by(lambda v: v[0], key_type=Types.STRING()).process(Mean()).name("means").uid("count")
means.get_side_output(ODD).print()
means.map(lambda mean: mean[1]).name("numbers").print()
env.execute("counts")
"""


@pytest.fixture
def job(tmp_path):
    path = tmp_path / "counts.py"
    path.write_text(JOB)
    return path


@pytest.fixture
def savepoint(tmp_path):
    return write_savepoint(tmp_path / "savepoints", content={COUNT: WORDS[COUNT]}, operator_state=False)


def test_an_operator_of_a_program_runs_as_in_the_job(job):
    before = sys.argv, list(sys.path), registered_executor()

    program = Program(job)

    assert (sys.argv, sys.path, registered_executor()) == before
    assert program.operators() == [("count", "means"), (program.operators()[1][0], "numbers")]
    with program.harness("means") as harness:
        harness.process(("a", 4), 5)
        harness.process(("a", 5))
        assert harness.extract_output() == [("a", 25, 0, 5), ("a", 20, 1, None)]
        assert harness.get_side_output(program.names["ODD"]) == ["a"]
        assert harness.get_keyed_state("a") == {"count": 2, "seen": {}, "last": [], "sum": None}
    with program.harness("numbers") as harness:
        harness.process(("a", 25))
        assert harness.extract_output() == [25]


def test_it_begins_with_the_state_of_a_snapshot(job, savepoint):
    program = Program(job)
    with program.harness("count", savepoint.uri) as harness:
        assert [harness.get_keyed_state(f"key-{number}")["count"] for number in range(3)] == [0, 1, 2]
    with program.harness("count", savepoint.uri, key_of=("key-7", 1)) as harness:
        assert harness.owns_key("key-7")
        assert harness.num_keyed_state_entries() < len(WORDS[COUNT]), "other key groups were not read"
        harness.process(("key-7", 50))
        assert harness.extract_output() == [("key-7", 2, 7, None)]


def test_states_are_put(job):
    values = {"count": 4, "seen": {"x": 1}, "last": ["a", "b"], "sum": 9}
    with Program(job).harness("count") as harness:
        harness.put_keyed_state("a", values)
        assert harness.get_keyed_state("a") == values
        assert harness.get_keyed_state("b")["count"] is None
        with pytest.raises(StateError, match="No state 'nosuch' is declared; there are 'count'"):
            harness.put_keyed_state("a", {"nosuch": 1})


@pytest.mark.parametrize(
    ("operator", "message"),
    [("cuont", "no operator 'cuont' among its own: 'count', 'numbers'"), (None, "The program has several operators")],
)
def test_an_operator_that_is_not_there(job, operator, message):
    with pytest.raises(JobGraphError, match=message):
        Program(job).harness(operator)


def test_a_program_that_asks_spark_for_a_value(job):
    job.write_text(JOB.replace("words = env", "if env.spark.range(3).count(): pass\nwords = env"))
    with pytest.raises(JobGraphError, match="asks Spark for a value"):
        Program(job)


FIXTURES = Path(__file__).parents[1] / "fixtures" / "snapshots" / "v0.1.0"


@pytest.mark.parametrize("backend", ["canonical-hashmap", "native-rocksdb"])
def test_all_kinds_of_state_of_a_fixture_are_read_and_put(tmp_path, backend):
    job = tmp_path / "all_kinds.py"
    job.write_text(
        "from pystate.common import Types\n"
        "from pystate.datastream import StreamExecutionEnvironment\n"
        "from tests.fixtures.all_kinds import AllKinds\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "pairs = env.from_collection([('a', 1)])\n"
        "pairs.key_by(lambda pair: pair[0], key_type=Types.STRING()).process(AllKinds()).uid('typed').print()\n"
        "env.execute('all kinds')\n"
    )
    program = Program(job)
    with program.harness("typed", str(FIXTURES / backend)) as harness:
        found = {key: harness.get_keyed_state(key) for key in ("ant", "bee")}
    (key,) = [key for key, values in found.items() if values["aggregating"] is not None][:1]
    assert isinstance(found[key]["aggregating"], tuple), "the accumulator"
    assert all(value not in (None, [], {}) for value in found[key].values())
    with program.harness("typed") as harness:
        harness.put_keyed_state(key, found[key])
        assert harness.get_keyed_state(key) == found[key]


def request_of(job, **changes):
    return {
        "job_file": str(job),
        "arguments": [],
        "configuration": {},
        "savepoint_path": None,
        "operator": "count",
        "record": "('key-7', 5)",
        "timestamp": None,
        "input": 1,
        "key": None,
        "watermark": None,
        "processing_time": None,
        "debugger": False,
        "as_test": None,
        "json": False,
        "failure": None,
        **changes,
    }


@pytest.mark.parametrize(("record", "fails"), [("('key-7', 5)", False), ("('key-7', 0)", True)])
def test_a_record_is_written_as_a_test_that_needs_no_savepoint(job, tmp_path, savepoint, capsys, record, fails):
    test = tmp_path / "test_record.py"

    code = replay(request_of(job, savepoint_path=savepoint.uri, record=record, timestamp=8, as_test=str(test)))

    text = test.read_text()
    assert code == fails
    assert "savepoint" not in text
    names = {"__file__": str(test), "__name__": "test_record"}
    exec(compile(text, str(test), "exec"), names)  # noqa: S102 - it is ours
    if fails:
        assert "# raised ZeroDivisionError" in text
        with pytest.raises(ZeroDivisionError):
            names["test_count_takes_the_record"]()
    else:
        names["test_count_takes_the_record"]()
        job.write_text(JOB.replace("100 //", "200 //"))
        with pytest.raises(AssertionError):
            names["test_count_takes_the_record"]()


def test_what_python_does_not_read_back_comes_from_the_savepoint_again(job, tmp_path):
    program = Program(job)
    request = request_of(job, savepoint_path="/there", as_test=str(tmp_path / "test_record.py"))
    text = harness_test(request, StateBefore("a", {"count": object()}), RecordCall(1, None, 1), [], None, program)
    assert "program.harness('count', '/there')" in text
    assert "put_keyed_state" not in text


def test_a_breakpoint_is_at_the_first_statement(job):
    program = Program(job)
    with program.harness("count") as harness:
        (place,) = breakpoints(harness.function)
    assert place == (str(job), 1 + JOB.splitlines().index("        count = self.count.value() or 0"))


@pytest.mark.parametrize(
    ("record", "error", "message"),
    [("nosuch", UsageError, "name 'nosuch' is not defined"), ("5", PystateError, "'int' object is not subscriptable")],
)
def test_a_record_that_is_none(job, record, error, message):
    with pytest.raises(error, match=message):
        replay(request_of(job, record=record))


TWO_KEYS = """
from pystate.common import Types
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.functions import KeyedCoProcessFunction
from pystate.datastream.state import ValueStateDescriptor


class Latest(KeyedCoProcessFunction):
    def open(self, ctx):
        self.latest = ctx.get_state(ValueStateDescriptor("latest", Types.LONG()))

    def process_element1(self, value, ctx):
        yield value["key"], self.latest.value()

    def process_element2(self, value, ctx):
        self.latest.update(value[1])


env = StreamExecutionEnvironment.get_execution_environment()
asked = env.from_collection([{"key": "a"}]).key_by(lambda v: v["key"], Types.STRING())
told = env.from_collection([("a", 1)]).key_by(lambda v: v[0], Types.STRING())
asked.connect(told).process(Latest()).uid("latest").print()
env.execute("latest")
"""


def test_a_record_of_the_second_input_has_the_key_that_input_has(tmp_path):
    (tmp_path / "latest.py").write_text(TWO_KEYS)
    with Program(tmp_path / "latest.py").harness("latest") as harness:
        key = harness.key_of(("b", 5), 2)
        harness.process(("b", 5), input_number=2)
        assert (key, harness.get_keyed_state(key)) == ("b", {"latest": 5})
        with pytest.raises(UsageError, match="has no input 3"):
            harness.process(5, input_number=3)
