"""Rows of state as people see them."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from rich.cells import cell_len

from pystate_cli.views.snapshots.state_rows import cell_text, write_table


@dataclass
class Table:
    columns: list[str]
    cells: list[list[object]]

    @property
    def rows(self):
        return iter(self.cells)


def test_columns_stand_below_each_other_where_letters_are_as_wide_as_two():
    written = []
    write_table(Table(["key", "value"], [["日本", 1], ["ü", 2], ["abc", 3]]), written.append)
    lines = "".join(written).splitlines()
    assert lines[0] == "key   value"
    assert [cell_len(line[:-1]) for line in lines[1:]] == [6, 6, 6]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain ü 日本", "plain ü 日本"),
        ("a\u202eb", '"a\\u202eb"'),
        ("a\nb\x1b[31m", '"a\\nb\\u001b[31m"'),
        (None, "null"),
        ("", ""),
        (["\u2066x"], '["\\u2066x"]'),
        ({"\U000e0001": 1}, '{"\\udb40\\udc01": 1}'),
    ],
)
def test_a_cell_shows_what_it_holds_and_nothing_that_a_terminal_obeys(value, shown):
    assert cell_text(value) == shown
