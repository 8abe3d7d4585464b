"""docs/tutorial.md: its steps, one by one without Spark; from step 6 on, which has them all, to the letter on Spark."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pystate.common import Row, Types
from pystate.core.api.executor import current_executor, register_executor
from pystate.datastream import StreamExecutionEnvironment
from pystate.testing import KeyedOneInputOperatorTestHarness, OperatorTestHarness
from tests.documents.page import DOCS, ROOT, Reader, blocks, section
from tests.fidelity.in_process import InProcessExecutor

STEPS = ROOT / "examples" / "tutorial"
TUTORIAL = (DOCS / "tutorial.md").read_text("utf-8")
MINUTE_MS, WINDOW_MS = 60_000, 300_000


@pytest.fixture
def step(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Return a function that imports a file of the tutorial, as `pystate run` does from its folder."""
    monkeypatch.syspath_prepend(str(STEPS))
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if str(STEPS) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def emitted(steps: Callable[[str], Any], stream: Callable[[Any], Any], numbers: tuple[int, ...]) -> Counter[Any]:
    """Return what comes out of a step for the payments of some files."""
    payments = steps("payments")
    rows = [payment for number in numbers for payment in payments.invented(number)]
    found: Counter[Any] = Counter()
    before = current_executor()
    register_executor(InProcessExecutor(parallelism=2, rows_per_epoch=100))
    try:
        env = StreamExecutionEnvironment.get_execution_environment()
        results = stream(env.from_collection(rows, payments.PAYMENT))
        results.map(lambda row: repr(tuple(row)), Types.STRING()).for_each_batch(
            lambda frame, epoch: found.update(row[0] for row in frame.collect())
        )
        env.execute()
    finally:
        register_executor(before)
    return found


def texts(rows: list[tuple[Any, ...]]) -> Counter[str]:
    return Counter(map(repr, rows))


def counted_cases(payments: list[Any]) -> list[tuple[str, int, int]]:
    """Return the cases of step 3, found without state."""
    cases = []
    for small in (one for one in payments if one.cents < 100):
        until = small.time + MINUTE_MS
        large = [one.cents for one in payments if one.card == small.card and one.cents >= 50_000]
        times = [one.time for one in payments if one.card == small.card and one.cents >= 50_000]
        taken = sum(cents for cents, time in zip(large, times, strict=True) if small.time <= time <= until)
        if taken:
            cases.append((small.card, taken, small.time))
    return cases


def counted_windows(payments: list[Any]) -> list[tuple[str, int, int]]:
    sums: dict[tuple[str, int], int] = defaultdict(int)
    for one in payments:
        sums[one.card, one.time - one.time % WINDOW_MS] += one.cents
    return [(card, start, cents) for (card, start), cents in sums.items()]


def test_a_line_that_is_no_payment_is_left_out(step: Callable[[str], Any]) -> None:
    parse = step("payments").parse
    assert parse('{"card": "a", "shop": "b", "cents": 5, "time": 7}') == [Row(card="a", shop="b", cents=5, time=7)]
    assert [parse(line) for line in ("", "{", "7", '{"card": "a"}', '{"card": 1, "shop": 2, "cents": "x", "time": 0}')] == [
        []
    ] * 5


def test_step_1_passes_large_payments(step: Callable[[str], Any]) -> None:
    found = emitted(step, step("step1_read").large, (1, 2))
    assert sum(found.values()) == 2 * (1 + 2 + 3)


def test_step_2_finds_a_large_payment_right_after_a_small_one(step: Callable[[str], Any]) -> None:
    found = emitted(step, step("step2_state").alerts, (1,))
    assert found <= Counter({"('card-1', 60000)": 1, "('card-2', 60000)": 1, "('card-3', 60000)": 1})
    assert found


def test_step_3_sums_up_each_case(step: Callable[[str], Any]) -> None:
    payments = [one for number in (1, 2) for one in step("payments").invented(number)]
    third = step("step3_timers")
    found = emitted(step, lambda stream: third.alerts(step("payments").in_time(stream)), (1, 2))
    assert found == texts(counted_cases(payments))
    assert [cents for _, cents, _ in counted_cases(payments)] == [60_000, 120_001, 120_001] * 2


def test_step_4_knows_the_shops_of_a_card_for_thirty_days(step: Callable[[str], Any]) -> None:
    function = step("step4_ttl").StrangeShops
    payment = Row(card="a", shop="jeweller", cents=60_000, time=0)
    with KeyedOneInputOperatorTestHarness(function(), lambda one: one.card, Types.STRING()) as harness:
        harness.open()
        for day in (0, 29, 58, 89):
            harness.set_processing_time(day * 24 * 60 * MINUTE_MS)
            harness.process_element(payment)
        assert len(harness.extract_output()) == 2, "the first one, and the one after 31 days"


def test_step_5_sums_what_a_card_spends(step: Callable[[str], Any]) -> None:
    fifth = step("step5_window")
    payments = step("payments").invented(3)
    found = emitted(step, lambda stream: fifth.spent(step("payments").in_time(stream)), (3,))
    assert found == texts(counted_windows(payments))


@pytest.mark.parametrize("parallelism", [1, 3])
def test_step_7_goes_on_with_the_open_cases_of_step_3(step: Callable[[str], Any], parallelism: int) -> None:
    payments = [one for one in step("payments").invented(1) if one.card == "card-2"]
    half = next(index for index, one in enumerate(payments) if one.cents >= 50_000) + 1
    key = (lambda one: one.card, Types.STRING())
    with KeyedOneInputOperatorTestHarness(step("step3_timers").Cases(), *key) as harness:
        harness.open()
        harness.process_elements(payments[:half], [one.time for one in payments[:half]])
        snapshot = harness.snapshot(1)
    found = []
    for index, share in enumerate(OperatorTestHarness.repartition([snapshot], 1, parallelism, 128)):
        function = step("step7_change").NumberedCases()
        with KeyedOneInputOperatorTestHarness(function, *key, parallelism=parallelism, subtask_index=index) as restored:
            restored.initialize_state(share)
            restored.open()
            if restored.owns_key("card-2"):
                restored.process_elements(payments[half:], [one.time for one in payments[half:]])
            restored.process_watermark(payments[-1].time + MINUTE_MS)
            found += [tuple(row) for row in restored.extract_output()]
    assert found == [(*case, 1) for case in counted_cases(payments)]


def test_the_code_of_the_page_is_that_of_the_files() -> None:
    shown = [block for block in blocks(TUTORIAL) if block.language == "python"]
    assert {block.facts["title"] for block in shown} == {path.name for path in STEPS.glob("*.py")}
    for block in shown:
        for part in re.split(r"\n+\.\.\.\n+", block.text):
            assert part.strip("\n") in (STEPS / block.facts["title"]).read_text("utf-8"), f"line {block.line} of the page"


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    made = Reader(tmp_path)
    for file in STEPS.glob("*.py"):
        (made.folder / file.name).write_text(file.read_text("utf-8"), "utf-8")
    yield made
    made.close()


def printed(chapter: str) -> Counter[str]:
    """Return what a chapter of the page shows of its job's log, as the texts of `emitted`."""
    shown = re.findall(r"^\+I\[(.*)\]$", section(TUTORIAL, chapter), re.MULTILINE)
    assert shown
    return Counter(repr(tuple(int(part) if part.isdigit() else part for part in line.split(","))) for line in shown)


def test_the_page_shows_what_steps_1_and_3_emit(step: Callable[[str], Any]) -> None:
    assert printed("Step 1: a stream") == emitted(step, step("step1_read").large, (1,))
    third = step("step3_timers")
    assert printed("Step 3: event time and timers") == emitted(
        step, lambda stream: third.alerts(step("payments").in_time(stream)), (1,)
    )


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_page_works_from_step_6_to_its_last_command(reader: Reader, step: Callable[[str], Any]) -> None:
    reader.type_all(section(TUTORIAL, "The payments"))
    reader.type_all(TUTORIAL.partition("\n## Step 6")[2])
    payments = [one for number in (1, 2, 3) for one in step("payments").invented(number)]
    lines = [line for file in reader.folder.glob("output/alerts/*/*.jsonl") for line in file.read_text("utf-8").splitlines()]
    found = Counter((alert["card"], alert["cents"], alert["time"]) for alert in map(json.loads, lines))
    assert found == Counter(counted_cases(payments)), "each alert once, over a stop, a change and a rescale"
    assert {"cases", "strange-shops", "spent"} <= set(reader.said['pystate savepoints inspect "$SAVEPOINT"'].split())
