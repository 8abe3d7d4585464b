"""What `make test` leaves to CI: that it is there, that it alone is left out, and how its seconds are measured."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.slow_selection import read_selection
from tests.thorough_selection import SELECTION
from tests.waiting import LONGEST_S

REPOSITORY = Path(__file__).parents[1]
SUITE = """
import subprocess, sys
import pytest
BUSY = "import time\\nwhile time.process_time() < 0.4: pass"
@pytest.mark.parametrize("x", ["1 2", "3"])
def test_a(x): pass
def test_b(): subprocess.run([sys.executable, "-c", BUSY], check=True)
"""
CONFTEST = """
from pathlib import Path
from tests.thorough_selection import LeftOut, ProcessorSeconds
def pytest_configure(config):
    config.pluginmanager.register(LeftOut({"test_it.py::test_a[1 2]": 1.5}))
    config.pluginmanager.register(ProcessorSeconds(Path("seconds.txt")))
"""


def test_what_is_left_out_is_there_and_is_named_once():
    names = read_selection(SELECTION)  # which refuses a name that is there twice
    tests = {
        tuple(name.partition("[")[0].split("::")) for name in names if not name.endswith("::runTest")
    }  # made by Hypothesis
    files = {file: (REPOSITORY / file).read_text("utf-8") for file, *_ in tests}
    missing = [
        (file, *path) for file, *path in tests for name in path if not re.search(rf"(def|class) {name}\b", files[file])
    ]
    assert missing == []
    assert min(names.values()) >= 0.5, "the quick ones are run by everybody"


@pytest.mark.parametrize("processes", ["0", "2"])
def test_the_selection_alone_is_left_out_and_what_tests_take_is_written(tmp_path, processes):
    (tmp_path / "test_it.py").write_text(SUITE)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", processes, "."]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(REPOSITORY / "runtime"), str(REPOSITORY)))}
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    lines = [line.split(maxsplit=1) for line in (tmp_path / "seconds.txt").read_text().splitlines()]
    assert [name for _, name in lines] == ["test_it.py::test_b", "test_it.py::test_a[3]"]
    assert float(lines[0][0]) > 0.3, "with the process that it started"
