"""Every piece of Python and of settings on a page runs: here, or in the test that is named."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

from pystate.common import Encoder, Row, Types
from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.loaded_configuration import load_configuration
from pystate.common.files.home import PystateHome
from pystate.common.job_client import JobClient
from pystate.connectors.generated.number_sequence import NumberSequenceSource
from pystate.core.api.executor import Executor, JobExecutionResult, current_executor, register_executor
from pystate.core.api.stream_graph import StreamGraph
from pystate.datastream import (
    AggregateFunction,
    DataStream,
    OutputTag,
    ProcessWindowFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from pystate.datastream.connectors.file_system import FileSink
from pystate.datastream.connectors.kafka import KafkaSink, KafkaSource
from pystate.queryable import QueryableStateClient
from pystate.state_processor import SavepointReader
from pystate.testing import KeyedOneInputOperatorTestHarness, ProcessFunctionTestHarnesses
from tests.documents.page import DOCS, ROOT, Block, blocks

ELSEWHERE = {
    "README.md": "tests/documents/test_snippets.py",
    "from-faust.md": "tests/documents/test_coming_from.py",
    "from-kafka-streams.md": "tests/documents/test_coming_from.py",
    "from-transform-with-state.md": "tests/documents/test_coming_from.py",
    "pyflink.md": "tests/documents/test_coming_from.py",
    "connectors-own.md": "tests/documents/test_connectors_page.py",
    "getting-started.md": "tests/documents/test_getting_started_page.py",
    "getting-started.zh.md": "tests/documents/test_getting_started_page.py",
    "session.md": "tests/e2e/programs/test_session_page.py",
    "spark-submit.md": "tests/e2e/clusters/test_spark_submit.py",
    "state-processor.md": "tests/documents/test_state_processor_page.py",
    "testing.md": "tests/documents/test_testing_page.py",
    "tutorial.md": "tests/documents/test_tutorial.py",
}
"""Pages whose snippets a test of their own runs."""

FACES = (
    "pystate.common",
    "pystate.common.time",
    "pystate.connectors.sink",
    "pystate.connectors.sql",
    "pystate.datastream",
    "pystate.datastream.connectors.file_system",
    "pystate.datastream.connectors.jdbc",
    "pystate.datastream.functions",
    "pystate.datastream.window",
    "pystate.testing",
)
"""Where the names come from that pages use without an import."""


def snippets(page: Path) -> list[Block]:
    return [block for block in blocks(page.read_text("utf-8")) if block.language == "python"]


PAGES = sorted(page for page in DOCS.glob("*.md") if snippets(page) and page.name not in ELSEWHERE)


class Planned(Executor):
    """Takes jobs, and runs none."""

    def __init__(self) -> None:
        self.graphs: list[StreamGraph] = []

    def base_configuration(self) -> Configuration:
        return Configuration({})

    def spark_session(self, configuration: Configuration) -> Any:
        return mock.MagicMock()

    def execute(self, graph: StreamGraph, configuration: Configuration, job_name: str) -> JobExecutionResult:
        self.graphs.append(graph)
        return JobExecutionResult("0" * 32, 0)


@pytest.fixture
def planned() -> Any:
    before = current_executor()
    register_executor(made := Planned())
    yield made
    register_executor(before)


def known_names() -> dict[str, Any]:
    names: dict[str, Any] = {}
    for face in FACES:
        module = importlib.import_module(face)
        names.update({name: getattr(module, name) for name in getattr(module, "__all__", vars(module))})
    for name in ("os", "uuid"):
        names[name] = importlib.import_module(name)
    return {**names, "np": np, "pa": pa, "Path": Path}


class CountAll(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class WithWindow(ProcessWindowFunction[Any, Any, str, Any]):
    def process(self, key: str, context: ProcessWindowFunction.Context[Any], elements: Any) -> Any:
        yield key


def given(page: str) -> dict[str, Any]:
    """Return what stands on the page in words only: streams, a source, functions of the reader's own."""
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_collection(["a", "b"], Types.STRING())
    context = mock.create_autospec(RuntimeContext, instance=True)
    own: dict[str, Any] = {"env": env, **dict.fromkeys(("stream", "lines", "orders", "payments"), stream)}
    if page == "connectors-files.md":
        own["builder"] = FileSink.for_row_format("/data", Encoder.simple_string_encoder())
    if page == "jobs.md":
        own |= {"Count": mock.MagicMock(), "COUNTED": Types.ROW_NAMED(["word", "count"], [Types.STRING(), Types.LONG()])}
    if page in {"jobs.md", "notebooks.md"}:
        env = mock.create_autospec(StreamExecutionEnvironment, instance=True)
        env.execute_async.return_value = mock.create_autospec(JobClient, instance=True)
        stream = mock.create_autospec(DataStream, instance=True)
        stream.execute_and_collect.return_value = mock.MagicMock()
        own |= {"env": env, "stream": stream}
    if page == "notebooks.md":
        reader = mock.create_autospec(SavepointReader)
        reader.read.return_value = mock.create_autospec(SavepointReader, instance=True)
        own |= {"SavepointReader": reader, "path": "/savepoints/savepoint-1"}
    if page == "queryable-state.md":
        own |= {"self": SimpleNamespace(), "runtime_context": context, "job_id": "0" * 32}
    if page == "kafka.md":
        own |= {"source": KafkaSource.builder(), "sink": KafkaSink.builder()}
    if page == "time.md":
        own |= {"source": NumberSequenceSource(1, 2), "late": OutputTag("late"), "WithWindow": WithWindow}
        own |= {"CountAll": CountAll}
    return own


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_python_of_a_page_runs(page: Path, planned: Planned, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    monkeypatch.setattr("sys.argv", ["job.py", "/data/in"])
    monkeypatch.setattr("pystate.queryable.QueryableStateClient", mock.create_autospec(QueryableStateClient))
    names = {**known_names(), **given(page.name), "__name__": "example"}
    for block in snippets(page):
        code = "\n" * (block.line - 1) + block.text
        exec(compile(code, str(page), "exec"), names)  # noqa: S102 - our own pages
    CHECKS.get(page.name, lambda _: None)(names)


def count_metrics(names: dict[str, Any]) -> None:
    with KeyedOneInputOperatorTestHarness(names["Count"](), str, Types.STRING()) as harness:
        harness.open()
        harness.process_elements(["a", "b"])
        assert harness.extract_output() == ["a", "b"]


def watch_spending(names: dict[str, Any]) -> None:
    make = ProcessFunctionTestHarnesses.for_keyed_broadcast_process_function
    with make(names["Spending"](), lambda payment: payment.card, Types.STRING(), names["RULES"]) as harness:
        harness.process_broadcast_element(Row(name="much", cents=100, within=60_000))
        for card, cents, time in (("a", 60, 0), ("b", 60, 1), ("a", 60, 59_999), ("a", 60, 3_700_000)):
            harness.process_element(Row(card=card, cents=cents, time=time), time)
        assert harness.extract_output() == [("a", "much")]
        harness.process_watermark(3_659_999)
        harness.process_broadcast_watermark(3_659_999)
        assert harness.num_event_time_timers() == 1, "what is an hour old is gone"


CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {"metrics.md": count_metrics, "functions.md": watch_spending}
"""What is tried of the names that a page has defined."""


def test_the_pages_that_are_tried_elsewhere_are() -> None:
    for page, test in ELSEWHERE.items():
        assert re.search(rf"\b{page}\b", (ROOT / test).read_text("utf-8"))


def test_the_program_of_the_readmes_is_an_example() -> None:
    example = (ROOT / "examples" / "access_log.py").read_text("utf-8")
    (english,), (chinese,) = snippets(ROOT / "README.md"), snippets(ROOT / "README.zh.md")
    assert english.text == chinese.text
    assert all(line in example for line in english.text.splitlines() if line)


SETTINGS = [
    (page.name, block)
    for page in sorted(DOCS.glob("*.md"))
    for block in blocks(page.read_text("utf-8"))
    if block.language == "toml" and "[project" not in block.text
]


@pytest.mark.parametrize(("page", "block"), SETTINGS, ids=lambda one: one if isinstance(one, str) else one.line)
def test_the_settings_of_a_page_can_be_set(page: str, block: Block, tmp_path: Path) -> None:
    (tmp_path / "flink-conf.toml").write_text(block.text, "utf-8")
    loaded = load_configuration(tmp_path, home=PystateHome(tmp_path))
    assert loaded.configuration.to_dict()
