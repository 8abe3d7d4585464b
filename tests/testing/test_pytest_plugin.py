"""The fixtures for pytest, in sessions of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import tomli

from tests.fixtures import all_kinds

REPOSITORY = Path(__file__).parents[2]
FUNCTION = """
from pystate.common import Types
from pystate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor, ListStateDescriptor
from pystate.testing import GoldenRun, KeyedOneInputOperatorTestHarness

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])

class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        ctx.timer_service().register_processing_time_timer(1000)
        yield value, count

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), -timestamp

def harness(function=Count, **options):
    return KeyedOneInputOperatorTestHarness(function(), str, Types.STRING(), **options)
"""


@pytest.fixture
def session(tmp_path):
    def run(tests: str, *options: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "test_job.py").write_text(FUNCTION + tests, "utf-8")
        (tmp_path / "pytest.ini").write_text("[pytest]\n", "utf-8")
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rs", *options]
        if not installed():
            command += ["-p", "pystate.pytest_plugin"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    return run


def installed() -> bool:
    """Whether the environment has been installed since the entry point is there."""
    from importlib.metadata import entry_points

    return any(point.value == "pystate.pytest_plugin" for point in entry_points(group="pytest11"))


def test_pytest_finds_the_plugin_by_an_entry_point():
    points = tomli.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]["pytest11"]
    assert points == {"pystate": "pystate.pytest_plugin"}


def test_it_costs_a_session_that_does_not_use_it_no_import():
    code = (
        "import sys, pystate.pytest_plugin; print(sorted(m for m in sys.modules if m.startswith(('pystate.', 'pyarrow'))))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "['pystate.pytest_plugin']"


def test_harnesses_are_opened_on_one_clock_and_closed(session):
    ended = session(
        """
class Closing(Count):
    def close(self):
        print("closed")

def test_timers(pystate_harness, pystate_clock):
    pystate_clock.set(300)
    one, other = pystate_harness(harness(Closing)), pystate_harness(harness(Closing))
    one.process_element("a")
    other.process_element("b")
    pystate_clock.advance(699)
    assert (pystate_clock.now, one.extract_output()) == (999, [("a", 1)])
    pystate_clock.advance(1)
    assert (one.extract_output()[1:], other.extract_output()[1:]) == ([("a", -1000)], [("b", -1000)])
""",
        "-s",
    )
    assert ended.returncode == 0, ended.stdout
    assert ended.stdout.count("closed") == 2


def test_a_harness_begins_with_a_savepoint(session, tmp_path):
    operators = [all_kinds.all_kinds_operator("typed", all_kinds.numbers_of(["ant"]), all_kinds.Types.STRING(), "hashmap")]
    path = all_kinds.write_savepoint(tmp_path / "savepoint-83f146-0123456789ab", operators)
    ended = session(
        f"""
class Peek(KeyedProcessFunction):
    def open(self, runtime_context):
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", Types.STRING()))

    def process_element(self, value, ctx):
        yield len(list(self.list.get()))

def test_state(pystate_harness):
    opened = pystate_harness(harness(Peek, max_parallelism={all_kinds.MAX_PARALLELISM}), {path!r}, "typed")
    opened.process_element("ant")
    assert opened.extract_output() != [0]

def test_half_of_it(pystate_harness):
    pystate_harness(harness(Peek), savepoint={path!r})
"""
    )
    assert "1 passed" in ended.stdout
    assert "given together" in ended.stdout


def test_golden_runs_are_compared_and_written_anew(session, tmp_path):
    tests = """
def test_golden(pystate_harness, pystate_golden):
    pystate_golden(pystate_harness(harness()), "golden.json")
"""
    record = """
def test_record(pystate_harness):
    one = pystate_harness(harness())
    recording = one.record()
    one.process_elements(["a", "a"])
    recording.write("golden.json")
"""
    assert session(record).returncode == 0
    recorded = (tmp_path / "golden.json").read_text("utf-8")
    assert session(tests).returncode == 0
    (tmp_path / "golden.json").write_text(recorded.replace('["a", 2]', '["a", 3]'), "utf-8")
    different = session(tests)
    assert "Result 1 is ('a', 2); recorded was ('a', 3)." in different.stdout
    assert session(tests, "--pystate-update-golden").returncode == 0
    assert (tmp_path / "golden.json").read_text("utf-8") == recorded


def test_tests_with_kafka_are_skipped_where_there_is_none(session, monkeypatch):
    monkeypatch.delenv("KAFKA_HOME", raising=False)
    ended = session("def test_kafka(pystate_kafka): raise AssertionError")
    assert "set KAFKA_HOME" in ended.stdout
    assert "1 skipped" in ended.stdout


def test_a_folder_without_kafka_is_named(session, monkeypatch, tmp_path):
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path))
    assert "has no Kafka" in session("def test_kafka(pystate_kafka): raise AssertionError").stdout
