"""The pages for people who know another system: ours runs and answers, Spark's is that of the Spark here."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from pystate.common import Row, Types, WatermarkStrategy
from pystate.common.watermark_strategy import TimestampAssigner
from pystate.core.api.executor import current_executor, register_executor
from pystate.datastream import DataStream, StreamExecutionEnvironment
from pystate.testing import KeyedOneInputOperatorTestHarness
from tests.documents.page import DOCS, blocks
from tests.fidelity.in_process import InProcessExecutor


def snippet(page: str, title: str) -> str:
    (found,) = (block for block in blocks((DOCS / page).read_text("utf-8")) if block.facts.get("title") == title)
    return found.text


def defined(page: str, title: str = "pystate") -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(snippet(page, title), page, "exec"), names)  # noqa: S102 - our own page
    return names


def emitted(build: Callable[[StreamExecutionEnvironment], DataStream]) -> Counter[Any]:
    """Return what a stream emits, without Spark."""
    found: Counter[Any] = Counter()
    before = current_executor()
    register_executor(InProcessExecutor(parallelism=2))
    try:
        env = StreamExecutionEnvironment.get_execution_environment()
        build(env).map(repr, Types.STRING()).for_each_batch(
            lambda frame, epoch: found.update(row[0] for row in frame.collect())
        )
        env.execute()
    finally:
        register_executor(before)
    return found


def test_a_word_is_counted_and_forgotten_after_an_hour() -> None:
    names = defined("from-transform-with-state.md")
    key = (lambda row: row.word, Types.STRING())
    with KeyedOneInputOperatorTestHarness(names["Count"](), *key) as harness:
        harness.open()
        for minute in (0, 59, 118):
            harness.set_processing_time(minute * 60_000)
            harness.process_element(Row(word="to"))
        assert [row["count"] for row in harness.extract_output()] == [1, 2, 3], "it came within the hour each time"
        harness.set_processing_time(178 * 60_000)
        harness.process_element(Row(word="to"))
        assert [row["count"] for row in harness.extract_output()] == [1, 2, 3, -3, 1]
    words = Types.ROW_NAMED(["word"], [Types.STRING()])
    found = emitted(lambda env: names["counts"](env.from_collection([Row(word="to"), Row(word="to")], words)))
    assert sum(found.values()) == 2


def test_the_processor_of_spark_is_one_of_the_spark_here() -> None:
    count = defined("from-transform-with-state.md", "Spark")["Count"]
    assert issubclass(count, StatefulProcessor)
    methods = {name for name in vars(count) if not name.startswith("_")}
    assert {name: list(inspect.signature(getattr(count, name)).parameters) for name in methods} == {
        name: list(inspect.signature(getattr(StatefulProcessor, name)).parameters) for name in methods
    }
    used = set(re.findall(r"handle\.(\w+)\(", snippet("from-transform-with-state.md", "Spark")))
    assert used == {name for name in used if hasattr(StatefulProcessorHandle, name)} != set()


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        time: int = value[1]
        return time


def test_words_are_counted_in_five_minutes() -> None:
    names = defined("from-kafka-streams.md")
    words = [("to", 0), ("be", 1_000), ("to", 299_999), ("to", 300_000)]
    strategy: WatermarkStrategy = names["IN_TIME"]

    def build(env: StreamExecutionEnvironment) -> DataStream:
        stream = env.from_collection(words, Types.TUPLE([Types.STRING(), Types.LONG()]))
        counts: DataStream = names["counts"](
            stream.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(SecondField()))
        )
        return counts

    assert emitted(build) == Counter(["('to', 2)", "('be', 1)", "('to', 1)"])


def test_an_account_is_reported_once() -> None:
    names = defined("from-faust.md")
    payments = [Row(account=account, amount=amount) for account, amount in (("a", 999), ("b", 5), ("a", 1), ("a", 7))]
    assert emitted(lambda env: names["reports"](env.from_collection(payments, names["PAYMENT"]))) == Counter(["'a'"])


def test_the_program_of_pyflink_differs_in_its_imports_alone_and_runs() -> None:
    theirs, ours = (snippet("pyflink.md", title) for title in ("PyFlink", "pystate"))
    assert theirs.replace("from pyflink.", "from pystate.") == ours
    before = current_executor()
    register_executor(InProcessExecutor())
    try:
        names = defined("pyflink.md")
    finally:
        register_executor(before)
    with KeyedOneInputOperatorTestHarness(names["Count"](), str, Types.STRING()) as harness:
        harness.open()
        harness.process_elements(["to", "be", "to"])
        assert harness.extract_output() == [("to", 1), ("be", 1), ("to", 2)]


@pytest.mark.parametrize("page", ["from-transform-with-state.md", "from-kafka-streams.md", "from-faust.md"])
def test_what_the_pages_call_ours_is_there(page: str) -> None:
    import pystate.datastream
    import pystate.datastream.window
    from pystate.datastream import DataStream, KeyedProcessFunction, KeyedStream, RuntimeContext, TimerService

    table = (DOCS / page).read_text("utf-8").partition("## Word for word")[2]
    ours = " ".join(line.split("|")[2] for line in table.splitlines() if line.startswith("| "))
    known = [pystate.datastream, pystate.datastream.window, DataStream, KeyedStream, RuntimeContext, TimerService]
    known += [KeyedProcessFunction]
    named = set(re.findall(r"`(?:\w+\.)?([a-z]+_\w+)(?=[(`])", ours)) | set(re.findall(r"`([A-Z]\w+[a-z])(?=[(`.])", ours))
    elsewhere = {"KafkaSink", "DeliveryGuarantee", "SavepointReader", "SavepointWriter", "Types"}
    assert {name for name in named - elsewhere if not any(hasattr(one, name) for one in known)} <= {
        "for_bounded_out_of_orderness",
        "enable_time_to_live",
        "allowed_lateness",
        "from_source",
        "unordered_wait",
    }
    assert len(named) > 4
