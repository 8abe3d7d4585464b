"""--help of every command."""

from __future__ import annotations

import re
from typing import Any

import pytest
import typer.main

from pystate_cli.command_line import application
from pystate_cli.command_table import COMMANDS
from pystate_cli.parser.help_pages import SECTIONS


def commands(group: Any = None, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    """Return all commands and groups with their words."""
    command = typer.main.get_command(application()) if group is None else group
    found = [(path, command)]
    for name, below in getattr(command, "commands", {}).items():
        found += commands(below, (*path, name))
    return found


@pytest.mark.parametrize("columns", ["80", "60"])
def test_no_name_of_an_option_is_cut(pystate, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    for path, command in commands():
        code, page, _ = pystate(*path, "--help")
        assert code == 0
        words = page.replace(",", " ").split()
        for name in (name for parameter in command.params for name in parameter.opts if name.startswith("-")):
            assert name in words, f"pystate {' '.join(path)} --help at {columns} columns"
        assert "…" not in page
        assert not re.search(r"[a-z ]\.\.\.", page)
        assert max(map(len, page.splitlines())) <= int(columns)


def test_the_list_of_commands_shows_whole_sentences(pystate):
    for path, command in commands():
        page = " ".join(pystate(*path, "-h").out.split())
        for below in getattr(command, "commands", {}).values():
            assert " ".join((below.help or "").partition("\n\n")[0].split()) in page


def test_each_command_stands_below_one_heading(pystate):
    listed = [name for names in SECTIONS.values() for name in names]

    assert sorted(listed) == sorted(COMMANDS)
    headings = [line[:-1] for line in pystate("--help").out.splitlines() if line[:1].isupper() and line.endswith(":")]
    assert headings == ["Options", *SECTIONS]


@pytest.mark.parametrize("group", ["savepoints", "state", "cluster"])
def test_a_group_without_a_command_is_answered_with_its_help(pystate, group):
    page = pystate(group, "--help").out

    assert pystate(group) == (2, page, "")


def test_usage_lines_name_arguments_as_they_are_typed(pystate):
    assert pystate("run", "-h").out.splitlines()[0] == "Usage: pystate run [OPTIONS] JOB.PY [ARGUMENTS]..."
    assert pystate("savepoint", "-h").out.splitlines()[0] == "Usage: pystate savepoint [OPTIONS] [JOBID] [DIR]"
    for path, _ in commands():
        assert not re.search(r"\{|\[\[", pystate(*path, "-h").out.splitlines()[0])
