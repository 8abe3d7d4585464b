"""The example notebooks, headless: by a small runner without IPython, and by nbclient where that is installed."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
REAL = ("nbclient", "nbformat", "ipykernel")
MISSING = [name for name in REAL if importlib.util.find_spec(name) is None]


def shown(path: Path, folder: Path) -> list[dict[str, Any]]:
    """Run a notebook; return what its cells have shown."""
    environment = {**os.environ, "PYSTATE_HOME": str(folder / "home"), "PYTHONPATH": str(ROOT), "TMPDIR": str(folder)}
    command = [sys.executable, "-m", "tests.e2e.programs.notebook_runner", str(path)]
    ended = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines() if line.startswith('{"cell"')]


@pytest.mark.slow
def test_the_first_job_shows_its_streams_itself_and_its_savepoint(tmp_path: Path) -> None:
    *cells, end = shown(ROOT / "examples" / "notebooks" / "first_job.ipynb", tmp_path)
    texts = [one["text/plain"] for cell in cells for one in cell["shown"]]
    final = [one["text/html"] for one in end["shown"] if "text/html" in one]

    assert sum("there may be more" in text for text in texts) == 1
    (job,) = (html for html in final if "rows read" in html)
    assert "FINISHED" in job  # its display, which went on while other cells ran
    assert any("VALUE LONG" in text or "VALUE  LONG" in text for text in texts), texts
    (counts,) = (html for html in final if "key_group" in html)
    assert set(re.findall(r"sensor \d", counts)) == {"sensor 0", "sensor 1", "sensor 2"}


@pytest.mark.slow
def test_results_are_lists_and_dataframes(tmp_path: Path) -> None:
    *cells, _ = shown(ROOT / "examples" / "notebooks" / "results.ipynb", tmp_path)
    texts = [one["text/plain"] for cell in cells for one in cell["shown"]]
    assert "[('to', 1), ('be', 1), ('or', 1)]" in texts
    assert any("6 elements, all there are" in text for text in texts)


@pytest.mark.slow
@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_kernel_of_jupyter_runs_them(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient, nbformat = importlib.import_module("nbclient"), importlib.import_module("nbformat")
    monkeypatch.setenv("PYSTATE_HOME", str(tmp_path / "home"))
    nbclient.NotebookClient(nbformat.read(path, 4), timeout=240).execute(cwd=str(tmp_path))


def test_notebooks_are_kept_without_outputs() -> None:
    for path in NOTEBOOKS:
        cells = json.loads(path.read_text("utf-8"))["cells"]
        assert not [cell["id"] for cell in cells if cell.get("outputs") or cell.get("execution_count")]
