"""What tests wait with."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import LONGEST_S, files_below

LIMIT = re.compile(
    r"(?:\.(?:exception|join|result|wait)\(|\b(?:communicate|run)\(.*timeout=|\bwait_until\([^\[]*, (?:seconds=)?)"
    r"(\d+(?:\.\d+)?)[,)]"
)
SHORT_ON_PURPOSE_S = 1
"""A wait for what must not happen ends by itself, and can only be too short to notice."""


def limits_of_their_own(text: str) -> list[str]:
    """Return the lines of a test file that wait for so many seconds, fewer than all others do."""
    found = ((line, LIMIT.search(line)) for line in text.splitlines() if "(" in line)
    return [line.strip() for line, limit in found if limit and SHORT_ON_PURPOSE_S < float(limit[1]) < LONGEST_S]


def test_no_test_has_a_limit_of_its_own_that_a_slow_machine_exceeds() -> None:
    """A test that waits for less time than others fails first where all is slow, and for no other reason."""
    folder = Path(__file__).parent
    attacks = folder / "security" / "attacks"  # they measure how long a server takes
    files = [path for path in folder.rglob("*.py") if attacks not in path.parents and path != Path(__file__)]
    found = {str(path.relative_to(folder)): limits_of_their_own(path.read_text("utf-8")) for path in files}
    assert {file: lines for file, lines in found.items() if lines} == {}, "LONGEST_S is how long tests wait"
    waits = ["future.result(10)", "subprocess.run([], timeout=60)", "wait_until(lambda: done(1, 2), 30.5)"]
    assert limits_of_their_own("\n".join([*waits, "thread.join(0.2)", "done.result(LONGEST_S)"])) == waits


def test_files_are_found_while_a_folder_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("goes", "stays"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    scan = os.scandir

    def scandir(path: Any) -> Any:
        if Path(path).name == "goes":
            monkeypatch.undo()
            shutil.rmtree(path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert files_below(tmp_path) == [tmp_path / "stays" / "file"]
    assert not (tmp_path / "goes").exists()
