"""Files, classes and functions stay of a size to be read at once."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

REPOSITORY = Path(__file__).parents[1]
OURS = ("runtime", "pystate_cli", "tests", "benchmarks", "examples")
MOST_LINES_OF_A_FILE = 600
MOST_LINES_OF_A_CLASS = 300
MEDIAN_LINES_OF_A_FUNCTION = 10
# those that are larger yet: the list only shrinks
LARGE_CLASSES: frozenset[str] = frozenset()

Function = (ast.FunctionDef, ast.AsyncFunctionDef)


def sources(*folders: str) -> Iterator[tuple[Path, str]]:
    for folder in folders:
        for file in sorted((REPOSITORY / folder).rglob("*.py")):
            yield file.relative_to(REPOSITORY), file.read_text("utf-8")


def length(node: ast.stmt) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def nodes(*folders: str) -> list[ast.AST]:
    return [node for _, text in sources(*folders) for node in ast.walk(ast.parse(text))]


@pytest.fixture(scope="module")
def code() -> list[ast.AST]:
    return nodes("runtime", "pystate_cli")


def test_no_file_is_too_long() -> None:
    lines = {str(file): text.count("\n") for file, text in sources(*OURS)}
    assert {file: count for file, count in lines.items() if count > MOST_LINES_OF_A_FILE} == {}


def test_no_class_is_too_long_but_those_that_are_named(code: list[ast.AST]) -> None:
    classes = [node for node in code if isinstance(node, ast.ClassDef)]
    large = {node.name: length(node) for node in classes if length(node) > MOST_LINES_OF_A_CLASS}
    assert {name: count for name, count in large.items() if name not in LARGE_CLASSES} == {}, "cut it by responsibility"
    assert large.keys() >= LARGE_CLASSES, "these aren't large any more: take them out of LARGE_CLASSES"


def test_half_of_the_functions_are_short(code: list[ast.AST]) -> None:
    assert median(length(node) for node in code if isinstance(node, Function)) < MEDIAN_LINES_OF_A_FUNCTION
