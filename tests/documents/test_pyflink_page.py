"""docs/pyflink.md: what it says of names and methods, against the code."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from pystate.common.errors import JobGraphError
from pystate.common.not_there import NotThere
from pystate.datastream import DataStream, StreamExecutionEnvironment
from tests.datastream.conftest import env  # noqa: F401 - a fixture
from tests.datastream.test_pyflink_api import NOT_THERE

PAGE = (Path(__file__).parents[2] / "docs" / "pyflink.md").read_text("utf-8")
NAME = re.compile(r"`([\w.]+)`")


def chapter(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(title: str) -> list[list[str]]:
    lines = [line for line in chapter(title).splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:] if "---" not in line]


def test_each_name_that_refuses_is_on_the_page_and_no_other() -> None:
    told: dict[str, set[str]] = {}
    for modules, names, _ in rows("Names that can be imported, and do nothing yet"):
        for module in NAME.findall(modules):
            told.setdefault(module, set()).update(NAME.findall(names))
    assert told == NOT_THERE
    for module, names in told.items():
        assert all(isinstance(getattr(importlib.import_module(f"pystate.{module}"), name), NotThere) for name in names)


@pytest.mark.parametrize(
    "name", [name for row in rows("Methods that are refused") for name in re.findall(r"`(\w+\.\w+)\(\)`", row[0])]
)
def test_each_method_that_is_refused_says_what_to_use(env, name: str) -> None:  # noqa: F811
    owner, _, method = name.partition(".")
    call = getattr(env if owner == "env" else env.from_collection([1]).map(lambda one: one), method)
    with pytest.raises(JobGraphError) as refused:
        call(*[] if method == "cache" else ["argument"])
    assert refused.value.hint


def test_the_methods_without_effect_are_there() -> None:
    listed = re.findall(r"`(env\.)?(\w+)\(\)`", chapter("Methods without effect").partition("of `env.get_config()`")[0])
    assert len(listed) >= 13
    for of_environment, method in listed:
        assert callable(getattr(StreamExecutionEnvironment if of_environment else DataStream, method)), method
