"""docs/from-flink.md: each option of each action of flink is on it, and it says what pystate really does with it."""

from __future__ import annotations

import re

import pytest

from pystate_cli.parser.flink_flags import FLAGS_WITHOUT_MEANING
from tests.cli.parser.test_flink_flags import FLINK, GENERIC, PYTHON, options_of
from tests.ops.jobmanager.harness import REPOSITORY

PAGE = (REPOSITORY / "docs" / "from-flink.md").read_text("utf-8")
SECTION = re.compile(r"^## flink (\S+)\n(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)
ROW = re.compile(r"^\| (`-.+?) \| (.+?) \| (.*?) ?\|$", re.MULTILINE)
NAME = re.compile(r"`(-[^` ]+)`")


def rows(action: str) -> list[tuple[list[str], str, str]]:
    text = dict(SECTION.findall(PAGE))[action]
    return [(NAME.findall(names), ours, differs) for names, ours, differs in ROW.findall(text)]


def test_each_action_has_its_section():
    assert {action for action, _ in SECTION.findall(PAGE)} == {*FLINK, "run-application"}


@pytest.mark.parametrize("action", FLINK)
def test_each_option_is_on_the_page_once(action):
    told = [name for names, _, _ in rows(action) for name in names]

    assert sorted(told) == sorted([*FLINK[action], *GENERIC])


@pytest.mark.parametrize("action", FLINK)
def test_the_page_says_what_pystate_does_with_each(action):
    known = {*options_of(action), *PYTHON}
    for names, ours, _ in rows(action):
        assert ours in ("the same", "-"), names
        for name in names:
            if ours == "the same":
                assert name in known, f"pystate {action} has no {name}"
            else:
                assert name not in known, f"pystate {action} has {name}"
                assert name in FLAGS_WITHOUT_MEANING, f"{name} is answered with nothing"


@pytest.mark.parametrize("action", [action for action in FLINK if action != "run"])
def test_what_has_no_meaning_is_answered_so(pystate, action):
    for names, ours, _ in rows(action):
        for name in names if ours == "-" else ():
            code, out, err = pystate(action, name, "x", *(["job.py"] if action == "info" else ["beef"]))
            assert (code, out) == (2, "")
            assert err.startswith(f"error: {name} is an option of the flink client that has no meaning here."), err


def test_the_options_that_are_ours_exist():
    for action, text in SECTION.findall(PAGE):
        for sentence in re.findall(r"(?:What is ours|Ours): (.*?)\.$", text, re.MULTILINE):
            assert set(NAME.findall(sentence)) <= set(options_of(action)), sentence
