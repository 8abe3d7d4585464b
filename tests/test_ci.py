"""`.ci/run`: two runs of the tests, one summary line and one exit code; and which slow tests it runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.slow_selection import BUDGET_S, read_selection
from tests.waiting import LONGEST_S

REPOSITORY = Path(__file__).parents[1]
FAKE_MAKE = """#!/bin/sh
echo "$*" >> calls
case $1 in servers | docs | class-data) exit 0 ;; esac
cat "$1.out"
exit "$(cat "$1.code")"
"""
SLOW = "test-slow-in-ci"


@pytest.fixture
def ci(tmp_path, monkeypatch):
    """Return a function that runs `.ci/run` where `make` prints and returns what it is told."""
    shutil.copytree(REPOSITORY / ".ci", tmp_path / ".ci", ignore=shutil.ignore_patterns("__pycache__"))
    commands = tmp_path / "bin"
    commands.mkdir()
    for name, text in {"make": FAKE_MAKE, "apt-get": "#!/bin/sh\nexit 1\n"}.items():  # nothing is installed
        (commands / name).write_text(text)
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")

    def run(**runs: tuple[str, int]) -> tuple[int, list[str], list[str]]:
        for name, (text, code) in runs.items():
            target = {"fast": "test", "slow": SLOW}[name]
            (tmp_path / f"{target}.out").write_text(text)
            (tmp_path / f"{target}.code").write_text(str(code))
        done = subprocess.run([tmp_path / ".ci" / "run"], capture_output=True, text=True, timeout=LONGEST_S, cwd="/")
        return done.returncode, done.stdout.splitlines(), (tmp_path / "calls").read_text().splitlines()

    return run


GOOD = "..\n\x1b[32m====== \x1b[32m7818 passed\x1b[0m, 62 skipped, 2 warnings in 551.50s (0:09:11) ======\x1b[0m\n"
BAD = "F.\n====== 1 failed, 40 passed, 7900 deselected, 1 warning, 1 error in 1200.25s (0:20:00) ======\nmake: *** Error 1\n"
BROKEN = "F\n== 2 failed, 1 passed in 3.00s ==\n"


@pytest.mark.parametrize(
    ("fast", "slow", "code", "last"),
    [
        ((GOOD, 0), (GOOD, 0), 0, "====== 15636 passed, 124 skipped, 4 warnings in 1103.00s (0:18:23) ======"),
        (
            (GOOD, 0),
            (BAD, 2),
            2,
            "====== 1 failed, 7858 passed, 62 skipped, 7900 deselected, 3 warnings, 1 error in 1751.75s (0:29:11) ======",
        ),
        ((BROKEN, 2), (GOOD, 0), 2, "====== 2 failed, 7819 passed, 62 skipped, 2 warnings in 554.50s (0:09:14) ======"),
        ((BROKEN, 1), (BROKEN, 2), 1, "====== 4 failed, 2 passed in 6.00s ======"),
        ((GOOD, 0), ("killed\n", 137), 137, "====== 7818 passed, 62 skipped, 2 warnings in 551.50s (0:09:11) ======"),
    ],
)
def test_it_ends_with_the_sum_of_both_runs_and_fails_where_one_does(ci, fast, slow, code, last):
    status, lines, calls = ci(fast=fast, slow=slow)
    assert (status, lines[-1]) == (code, last)
    assert calls[:4] == ["servers", "docs", "test THOROUGH=1", "class-data"]
    what, _, limit = calls[4].partition("LIMIT=")
    assert what == f"{SLOW} "
    assert 3600 - 60 <= int(limit) <= 3600, "what is left of sixty minutes"


def test_without_tests_there_is_no_summary_and_nothing_more_is_run(ci):
    status, lines, calls = ci(fast=("E501 Line too long\nFound 3 errors in 2.0s\n", 2))
    assert (status, lines[-1], calls) == (2, "Found 3 errors in 2.0s", ["servers", "docs", "test THOROUGH=1"])


def test_the_selection_fits_into_its_time():
    selection = read_selection()
    assert 0 < sum(selection.values()) <= BUDGET_S


def test_each_test_of_the_selection_is_there_and_slow():
    files = sorted({name.partition("::")[0] for name in read_selection()})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "--slow-in-ci", "1", *files]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S, cwd=REPOSITORY)
    assert done.returncode == 0, done.stdout + done.stderr


SUITE = """
import pytest
@pytest.mark.slow
def test_a(): pass
@pytest.mark.slow
@pytest.mark.parametrize("x", ["1 2"])
def test_b(x): pass
@pytest.mark.slow
def test_c(): pass
def test_fast(): pass
"""
CONFTEST = """
from tests.slow_selection import SlowSelection
def pytest_configure(config):
    config.addinivalue_line("markers", "slow: slow")
    config.pluginmanager.register(SlowSelection(100, {selection!r}))
"""


@pytest.fixture
def selected(tmp_path):
    """Return a function that runs a small suite with a selection and 100 s."""

    def run(selection: dict[str, int]) -> tuple[int, str]:
        (tmp_path / "test_it.py").write_text(SUITE)
        (tmp_path / "conftest.py").write_text(CONFTEST.format(selection=selection))
        (tmp_path / "pytest.ini").write_text("[pytest]\n")
        command = [sys.executable, "-m", "pytest", "-v", "-rs", "-p", "no:cacheprovider", "."]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(REPOSITORY / "runtime"), str(REPOSITORY)))}
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S, cwd=tmp_path, env=environment)
        return done.returncode, done.stdout + done.stderr

    return run


def test_what_is_selected_runs_in_its_order_and_what_does_not_fit_is_skipped_by_name(selected):
    code, text = selected({"test_it.py::test_b[1 2]": 10, "test_it.py::test_c": 500, "test_it.py::test_a": 10})
    ran = [line.split(" ")[0] for line in text.splitlines() if "PASSED" in line or "SKIPPED (" in line]
    assert code == 0, text
    assert ran == ["test_it.py::test_b[1", "test_it.py::test_c", "test_it.py::test_a"]
    assert "takes about 500 s, and of 100 s there are " in text
    assert "2 passed, 1 skipped, 1 deselected" in text


@pytest.mark.parametrize("name", ["test_it.py::test_gone", "test_it.py::test_fast"])
def test_a_selection_of_what_is_no_slow_test_is_refused(selected, name):
    code, text = selected({"test_it.py::test_a": 1, name: 1})
    assert (code, f"names what is no slow test: {name}" in text) == (4, True), text
