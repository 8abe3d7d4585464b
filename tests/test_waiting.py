"""What tests wait with."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import files_below


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
