"""release/matrix.py: which lines of the page's table it replaces."""

from __future__ import annotations

from release.matrix import COMBINATIONS, MARKS, Row, recorded
from tests.documents.page import DOCS

PAGE = (DOCS / "releases.md").read_text("utf-8")


def table(page: str) -> list[str]:
    found = MARKS.search(page)
    assert found
    return found[0].splitlines()[3:-1]


def test_what_was_run_replaces_its_own_lines_and_no_others() -> None:
    again = Row(("3.11.9", "4.3.1", "3.0.0"), ("1 passed", "2 passed"))
    new = Row(("3.14", "4.3", "3"), ("this Python isn't here",))
    page = recorded(PAGE, [new, again])
    before, after = table(PAGE), table(page)
    assert [line for line in after if line not in before] == [str(again), str(new)], "in the order of the combinations"
    assert sum(line.startswith("| 3.11.") and "| 4.3." in line and "| 3." in line[6:] for line in after) == 1
    assert page.replace("\n".join(after), "") == PAGE.replace("\n".join(before), "")


def test_a_line_of_each_combination_has_its_place() -> None:
    rows = [Row(versions, ("1 passed", "1 passed")) for versions in COMBINATIONS]
    assert table(recorded(PAGE, rows[::-1])) == list(map(str, rows))
