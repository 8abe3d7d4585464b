"""The site of `make docs`: each page has its place, and the programs of the first page do what it says."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from pystate.common import Types
from pystate.testing import ProcessFunctionTestHarnesses

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
STARTED = (DOCS / "getting-started.md").read_text("utf-8")
BLOCKS = re.findall(r"^```python[^\n]*\n(.*?)^```", STARTED, re.MULTILINE | re.DOTALL)


def test_every_page_has_a_place_in_the_nav_and_every_place_a_page() -> None:
    nav = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
    placed = set(re.findall(r"\S+\.md\b", nav)) - {"reference/options.md"}
    folders = tuple(re.findall(r"\S+/$", nav, re.MULTILINE))
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert placed == {page for page in pages if not page.startswith(folders)}


def test_the_programs_of_getting_started_count_and_go_on_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    first, test, second = BLOCKS
    module = ModuleType("count")
    monkeypatch.setitem(sys.modules, "count", module)
    exec(compile(first, "count.py", "exec"), vars(module))  # noqa: S102 - our own page
    names: dict[str, object] = {}
    exec(compile(test, "test_count.py", "exec"), names)  # noqa: S102 - our own page
    names["test_each_word_has_its_own_count"]()  # type: ignore[operator]
    make = ProcessFunctionTestHarnesses.for_keyed_process_function
    harness = make(module.Count(), str, Types.STRING())
    harness.process_elements("to be or not to be".split())
    snapshot = harness.snapshot(1)
    exec(compile(second, "count.py", "exec"), vars(module))  # noqa: S102 - our own page
    from pystate.testing import KeyedOneInputOperatorTestHarness

    with KeyedOneInputOperatorTestHarness(module.Count(), str, Types.STRING()) as restored:
        restored.initialize_state(snapshot)
        restored.open()
        restored.process_elements("to be is to do".split())
        assert [(row.word, row["count"]) for row in restored.extract_output()] == [("to", 3), ("be", 3)]
