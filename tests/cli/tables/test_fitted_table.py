from __future__ import annotations

from pystate_cli.tables import fitted_table


def test_a_cut_name_ends_with_a_mark():
    assert fitted_table.shortened("a long name", 6, unicode=True) == "a lon…"
    assert fitted_table.shortened("a long name", 6, unicode=False) == "a lo.."
    assert fitted_table.shortened("统计单词的作业", 6, unicode=True) == "统计 …"
    assert fitted_table.shortened("short", 6, unicode=True) == "short"
