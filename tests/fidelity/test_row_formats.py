"""Rows as JSON and CSV, beside the answers of Flink's own classes (`row_formats/cases.py`)."""

import json
from pathlib import Path

import pytest

from tests.fidelity.row_formats.cases import RECORD, questions
from tests.fidelity.row_formats.differences import DIFFERENCES
from tests.fidelity.row_formats.ours import answer, means

QUESTIONS = questions()
FLINK = json.loads(RECORD.read_text())
PAGE = Path(__file__).parents[2] / "docs" / "types.md"


def differing():
    found = {}
    for name, question in QUESTIONS.items():
        here, there = answer(question), FLINK[name]
        alike = here == there if "message" in question else means(question, here) == means(question, there)
        if not alike:
            found[name] = here
    return found


def test_row_formats_answer_as_flinks_do_but_where_it_is_said():
    assert FLINK.keys() == QUESTIONS.keys(), "ask Flink once more: cases.py says how"
    used = set()
    for name, here in differing().items():
        known = [one for one in DIFFERENCES if one.questions.fullmatch(name) and one.here.fullmatch(here)]
        assert known, f"{name}: Flink answers {FLINK[name]}, we answer {here}, and nobody has said why"
        used.add(known[0].topic)
    assert used == {one.topic for one in DIFFERENCES}, "a difference that is none any more"


@pytest.mark.parametrize("topic", sorted({one.topic for one in DIFFERENCES}))
def test_each_difference_stands_on_its_page(topic):
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    assert any(line.startswith(f"| {topic}") for line in rows)
