"""What type checkers find in programs: nothing in the examples, and in `states.py` exactly what is marked there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
STATES = Path(__file__).with_name("states.py")
MARKED = {number for number, line in enumerate(STATES.read_text("utf-8").splitlines(), 1) if line.endswith("# error")}
EXAMPLES = sorted((REPOSITORY / "examples").glob("*.py"))
PYRIGHT = shutil.which("pyright", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))


def errors_of_mypy(files: list[Path]) -> set[tuple[str, int]]:
    """Of these files and what they import, with the options of `make types`: with others, mypy would check pystate again."""
    command = [sys.executable, "-m", "mypy", *map(str, files)]
    ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert ended.returncode in (0, 1), ended.stdout + ended.stderr
    assert "checked" in ended.stdout or "no issues found" in ended.stdout, ended.stdout
    found = re.findall(r"^(.+?):(\d+): error: ", ended.stdout, re.MULTILINE)
    return {(Path(file).name, int(line)) for file, line in found}


def test_mypy_tells_the_types_of_states() -> None:
    assert errors_of_mypy([STATES]) == {(STATES.name, line) for line in MARKED}


def test_mypy_tells_of_the_example_of_the_page_what_is_written_there(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "types.md").read_text("utf-8").partition("## Type checkers")[2]
    imports = STATES.read_text("utf-8").partition("RULES =")[0]
    (example,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    program = tmp_path / "program.py"
    program.write_text(imports + example, "utf-8")
    lines = enumerate(program.read_text("utf-8").splitlines(), 1)
    marked = {(program.name, number) for number, line in lines if "# an error" in line}
    assert errors_of_mypy([program]) == marked
    assert len(marked) == 2


def test_mypy_finds_nothing_in_the_examples() -> None:
    assert errors_of_mypy(EXAMPLES) == set()


@pytest.mark.skipif(PYRIGHT is None, reason="there is no pyright here: pip install 'pyright[nodejs]'")
@pytest.mark.slow
def test_pyright_tells_the_same() -> None:
    command = [str(PYRIGHT), "--outputjson", "--pythonpath", sys.executable]
    ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    answer = json.loads(ended.stdout)
    assert answer["summary"]["filesAnalyzed"] > len(EXAMPLES)
    found = [one for one in answer["generalDiagnostics"] if one["severity"] == "error"]
    places = {(Path(one["file"]).name, one["range"]["start"]["line"] + 1): one["message"] for one in found}
    assert set(places) == {(STATES.name, line) for line in MARKED}, places


def test_the_library_says_that_it_is_typed() -> None:
    assert (REPOSITORY / "runtime" / "pystate" / "py.typed").is_file()
