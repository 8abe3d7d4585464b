"""A file with the name of a module that pystate needs is named, before a driver fails for no visible reason."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pystate.common.errors import JobGraphError
from pystate_cli.programs.given_program import check_program
from pystate_cli.programs.hiding_files import STANDARD, hiding_file

IMPORTED = """
import importlib, sys
for name in (
    "pandas", "pyarrow.parquet", "pyspark.daemon", "pyspark.sql", "pyspark.worker", "pystate.datastream",
    "pystate.ops.warm_start.spare_driver", "pystate.runtime.driver.__main__", "pystate.runtime.driver.program_check",
):
    importlib.import_module(name)
print(*sys.stdlib_module_names & sys.modules.keys())
"""


@pytest.mark.parametrize("name", ["json.py", "types.py", "queue.py", "pyspark.py", "pystate.py", "logging/__init__.py"])
def test_a_file_that_hides_a_module_is_named(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("")
    (tmp_path / "job.py").write_text("x = 1\n")

    with pytest.raises(JobGraphError, match=f"Python imports {name.split('/')[0]} in the place of the module"):
        check_program(tmp_path / "job.py")


def test_a_program_that_hides_a_module_is_named(tmp_path):
    (tmp_path / "json.py").write_text("x = 1\n")

    with pytest.raises(JobGraphError, match="in the place of the module 'json'"):
        check_program(tmp_path / "json.py")


@pytest.mark.parametrize("name", ["test.py", "code.py", "time.py", "sys.py", "json.txt", "json/data.txt", "pyspark/job.py"])
def test_what_hides_nothing_is_no_matter(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("")

    assert hiding_file([tmp_path, tmp_path / "gone"]) is None


def test_a_file_of_the_working_directory_counts(tmp_path, monkeypatch):
    (tmp_path / "random.py").write_text("")
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "job.py").write_text("x = 1\n")
    monkeypatch.chdir(tmp_path)

    with pytest.raises(JobGraphError, match="random"):
        check_program(Path("jobs/job.py").absolute())


def test_all_that_is_imported_is_known():
    done = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True)

    imported = {name for name in done.stdout.split() if not name.startswith("_")} - {"sys", "builtins"}
    assert imported, done.stderr
    assert imported <= STANDARD
