import re
import shutil
import sys
import sysconfig
from pathlib import Path

import pytest

import pystate
from pystate.runtime.driver.program.code_fingerprint import code_fingerprint, fingerprint


@pytest.fixture
def program(tmp_path):
    folder = tmp_path / "job"
    (folder / "lib").mkdir(parents=True)
    (folder / "job.py").write_text("import lib.count\n")
    (folder / "lib" / "count.py").write_text("STEP = 1\n")
    return folder / "job.py"


def of(program):
    return fingerprint(program, [program, program.parent / "lib" / "count.py"])


def test_it_is_a_sha256(program):
    assert re.fullmatch(r"[0-9a-f]{64}", of(program))


@pytest.mark.parametrize("file", ["job.py", "lib/count.py"])
def test_each_file_of_the_program_counts(program, file):
    before = of(program)
    (program.parent / file).write_text("STEP = 2\n")

    assert of(program) != before


def test_a_moved_and_renamed_program_is_the_same(program, tmp_path):
    before = of(program)
    shutil.move(program.parent, tmp_path / "elsewhere")
    moved = (tmp_path / "elsewhere" / "job.py").rename(tmp_path / "elsewhere" / "job_v2.py")

    assert of(moved) == before


def test_files_that_change_places_count(program):
    other = program.parent / "lib" / "other.py"
    other.write_text("X = 1\n")
    count = program.parent / "lib" / "count.py"
    before = fingerprint(program, [count, other])
    first, second = count.read_text(), other.read_text()
    count.write_text(second)
    other.write_text(first)

    assert fingerprint(program, [other, count]) != before


def test_modules_from_elsewhere_do_not_count(program, tmp_path):
    elsewhere = tmp_path / "other.py"
    elsewhere.write_text("X = 1\n")
    installed = Path(sysconfig.get_path("purelib")) / "nosuch.py"
    compiled = program.parent / "lib" / "fast.so"
    ours = Path(pystate.__file__)

    assert fingerprint(program, [elsewhere, installed, compiled, ours]) == fingerprint(program, [])


def test_a_file_that_is_gone_leaves_it_unknown(program):
    program.unlink()

    assert of(program) is None


def test_a_program_that_is_no_file_has_none(monkeypatch):
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)

    assert code_fingerprint() is None
