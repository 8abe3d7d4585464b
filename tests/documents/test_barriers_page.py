"""docs/barriers.md names what is in the code."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "barriers.md").read_text("utf-8")
NAME = re.compile(r"\b((?:[A-Z][a-z]+){2,})(?:\.([A-Za-z_]+))?")


@pytest.fixture(scope="module")
def classes():
    found = {}
    for file in (ROOT / "runtime").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                members = [one.name for one in node.body if isinstance(one, ast.FunctionDef)]
                targets = [one.targets[0] for one in node.body if isinstance(one, ast.Assign)]
                members += [target.id for target in targets if isinstance(target, ast.Name)]
                found.setdefault(node.name, set()).update(members)
    return found


def test_what_it_names_is_there(classes):
    names = NAME.findall(PAGE)
    assert len(names) > 15
    for name, member in names:
        assert name in classes, f"there is no class {name}"
        assert not member or member in classes[name], f"{name} has no {member}"
    for member in ("trigger_checkpoint", "_checkpoint_source", "_settle"):
        assert member in PAGE
        assert member in classes["RealTimeSubtask"]


def test_files_that_it_names_are_there():
    for file in re.findall(r"`(tests/[\w/.]+)`", PAGE):
        assert (ROOT / file).is_file(), file
