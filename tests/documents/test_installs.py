"""What we tell people to install is ours: in the public index the name `pystate` is somebody else's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pystate.common.distribution import FOREIGN_NAME, NAME, pip_install
from tests.ops.jobmanager.harness import REPOSITORY
from tests.test_project import PROJECT

TEXTS = (".py", ".md", ".toml", ".in", ".txt", ".js", ".sh", ".cfg", ".ini", ".yml", ".yaml", ".html", ".ipynb", "")
FOLDERS = ("runtime", "pystate_cli", "docs", "examples", "conf", "benchmarks", "tests", "requirements", "release")
INSTALL = re.compile(r"(?:pip|pipx|uv)(?:3| tool| pip)? install\s+((?:-\S+\s+)*)([\"'\\`]*)([A-Za-z][\w.-]*)", re.MULTILINE)
DEPENDS = re.compile(r"""^ *(?:dependencies|requires|install_requires) *= *\[[^\]]*["']pystate *["'<>=~!]""", re.MULTILINE)
EXTRA = re.compile(rf"(?<![\w.-]){FOREIGN_NAME}\[([a-z][a-z0-9]*)\]")


def texts() -> list[Path]:
    found = [path for path in REPOSITORY.iterdir() if path.is_file() and path.suffix in TEXTS]
    for folder in FOLDERS:
        found += [path for path in (REPOSITORY / folder).rglob("*") if path.is_file() and path.suffix in TEXTS]
    # the changelog is written for each release; until then it may name extras as they were called before
    others = (Path(__file__), REPOSITORY / "CHANGELOG.md")
    return [path for path in found if "egg-info" not in str(path) and path not in others]


def wrong(text: str) -> list[str]:
    """Return what of a text would install somebody else's pystate."""
    named = [found[0] for found in INSTALL.finditer(text) if found[3] == FOREIGN_NAME]
    named += [found[0] for found in DEPENDS.finditer(text)]
    return named + [found[0] for found in EXTRA.finditer(text) if found[1] in PROJECT["project"]["optional-dependencies"]]


def test_no_text_tells_anybody_to_install_what_is_not_ours():
    read = {path: path.read_text("utf-8", errors="ignore") for path in texts()}
    assert sum(f"install '{NAME}" in text or f'install "{NAME}' in text for text in read.values()) > 10
    assert {str(path): wrong(text) for path, text in read.items() if wrong(text)} == {}


@pytest.mark.parametrize(
    "text",
    [
        "pip install pystate",
        "pip install -U 'pystate[s3]'",
        "uv tool install pystate",
        "the extra `pystate[s3]`",
        "dependencies = [\n  'a',\n  'pystate>=1']",
    ],
)
def test_the_search_finds_it(text):
    assert wrong(text)


def test_the_name_is_that_of_the_project():
    assert PROJECT["project"]["name"] == NAME
    assert pip_install("s3") == "pip install 'pystate-spark[s3]'"
    assert list(PROJECT["project"]["scripts"]) == ["pystate", "pystate-operator"]
