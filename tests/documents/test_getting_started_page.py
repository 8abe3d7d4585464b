"""docs/getting-started.md, followed to the letter: its files are written, its commands typed."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from pystate.common import Types
from pystate.testing import KeyedOneInputOperatorTestHarness, ProcessFunctionTestHarnesses
from tests.documents.page import DOCS, Reader, blocks

STARTED = (DOCS / "getting-started.md").read_text("utf-8")
PROGRAMS = [block for block in blocks(STARTED) if block.language == "python"]


def test_the_programs_count_and_go_on_as_the_page_says(monkeypatch: pytest.MonkeyPatch) -> None:
    first, test, second = (compile(block.text, block.facts["title"], "exec") for block in PROGRAMS)
    module = ModuleType("count")
    monkeypatch.setitem(sys.modules, "count", module)
    exec(first, vars(module))  # noqa: S102 - our own page
    names: dict[str, object] = {}
    exec(test, names)  # noqa: S102 - our own page
    names["test_each_word_has_its_own_count"]()  # type: ignore[operator]
    make = ProcessFunctionTestHarnesses.for_keyed_process_function
    harness = make(module.Count(), str, Types.STRING())
    harness.process_elements("to be or not to be".split())
    snapshot = harness.snapshot(1)
    exec(second, vars(module))  # noqa: S102 - our own page
    with KeyedOneInputOperatorTestHarness(module.Count(), str, Types.STRING()) as restored:
        restored.initialize_state(snapshot)
        restored.open()
        restored.process_elements("to be is to do".split())
        assert [(row.word, row["count"]) for row in restored.extract_output()] == [("to", 3), ("be", 3)]


def test_the_chinese_page_has_the_same_files_and_commands() -> None:
    chinese = (DOCS / "getting-started.zh.md").read_text("utf-8")
    assert [block[:3] for block in blocks(chinese)] == [block[:3] for block in blocks(STARTED)]
    links = [set(re.findall(r"\]\((?!getting)([^)]+)\)", text)) for text in (chinese, STARTED)]
    assert links[0] == links[1]


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    made = Reader(tmp_path)
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_page_works_from_its_first_file_to_its_last_command(reader: Reader) -> None:
    install, _, rest = STARTED.partition("\n## A job with state\n")
    assert "pip install" in install, "all else is typed"
    reader.follow(rest)
    assert "1 passed" in reader.said["python -m pytest -q test_count.py"]
    assert "count (RUNNING)" in reader.said["pystate list"]
    assert "count     count  value  4 " in reader.said['pystate savepoints inspect "$SAVEPOINT"']
    assert "restored  count" in reader.said['pystate info -s "$SAVEPOINT" count.py input']
    printed = [line for line in reader.said["pystate logs count"].splitlines() if "+I[" in line]
    assert len(printed) == 2, "the old input is not read again"
