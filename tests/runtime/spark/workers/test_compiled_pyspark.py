"""PySpark comes from a folder in place of an archive only where both are the same."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pystate.runtime.spark.workers import compiled_pyspark

FILES = {"pyspark/__init__.py": "", "pyspark/version.py": "4", "pyspark/worker.py": "main", "pyspark/tests/test_all.py": ""}
INSTALLED = {name: text for name, text in FILES.items() if "tests" not in name}


def written(folder: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return str(folder)


@pytest.fixture
def archive(tmp_path: Path) -> str:
    path = tmp_path / "pyspark.zip"
    with zipfile.ZipFile(path, "w") as made:
        for name, text in FILES.items():
            made.writestr(name, text)
    return str(path)


@pytest.fixture(autouse=True)
def nothing_imported(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(compiled_pyspark, "_PACKAGES", ("pyspark",))
    before = sys.modules.pop("pyspark", None)
    yield
    sys.modules.pop("pyspark", None)
    if before is not None:
        sys.modules["pyspark"] = before


def test_a_folder_with_the_same_is_taken_and_nothing_beside_it(tmp_path: Path, archive: str) -> None:
    folder, before = written(tmp_path / "site", INSTALLED), list(sys.path)
    assert compiled_pyspark.import_compiled([archive, folder], None) == ["pyspark"]
    assert sys.modules["pyspark"].__file__ == f"{folder}/pyspark/__init__.py"
    assert sys.path == before


def test_sparks_own_folder_is_looked_at_last(tmp_path: Path, archive: str) -> None:
    written(tmp_path / "spark" / "python", INSTALLED)
    assert compiled_pyspark.import_compiled([archive], str(tmp_path / "spark")) == ["pyspark"]


@pytest.mark.parametrize("changed", [{"pyspark/version.py": "5"}, {"pyspark/worker.py": "patched"}])
def test_a_folder_with_another_spark_is_left_alone(tmp_path: Path, archive: str, changed: dict[str, str]) -> None:
    folder = written(tmp_path / "site", INSTALLED | changed)
    assert compiled_pyspark.import_compiled([archive, folder], None) == []
    assert "pyspark" not in sys.modules


def test_what_would_be_found_in_a_folder_anyway_is_not_touched(tmp_path: Path, archive: str) -> None:
    folder = written(tmp_path / "site", INSTALLED)
    assert compiled_pyspark.import_compiled([folder, archive], None) == []
