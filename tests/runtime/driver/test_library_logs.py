"""What libraries log stays out of stdout, where the job's rows are; in processes of their own, for logging is global."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import logging, sys
{setup}
from pystate.runtime.driver.library_logs import keep_libraries_off_stdout
keep_libraries_off_stdout()
keep_libraries_off_stdout()
print("a row")
logging.getLogger("mine").info("of the program")
import py4j.java_gateway, asyncio.log
code = compile('LOGGER.warning("of a library")', py4j.java_gateway.__file__, "exec")
exec(code, {{"LOGGER": logging.getLogger("some.library")}})
py4j_code = compile('LOGGER.info("chatter"); LOGGER.warning("trouble")', py4j.java_gateway.__file__, "exec")
exec(py4j_code, {{"LOGGER": py4j.java_gateway.logger}})
"""


def run(tmp_path: Path, setup: str) -> tuple[list[str], list[str]]:
    """Return the lines of a program's stdout and stderr."""
    program = tmp_path / "job.py"
    program.write_text(PROGRAM.format(setup=setup))
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=True)  # noqa: S603
    return done.stdout.splitlines(), done.stderr.splitlines()


@pytest.mark.parametrize("stream", ["sys.stdout", "sys.__stdout__"])
def test_the_program_s_own_lines_stay_where_it_sends_them_those_of_libraries_go_to_stderr(tmp_path, stream):
    out, error = run(tmp_path, f"logging.basicConfig(stream={stream}, level=logging.INFO, format='%(name)s %(message)s')")
    assert sorted(out) == ["a row", "mine of the program"]
    assert error == ["some.library of a library", "py4j.java_gateway trouble"]


def test_a_handler_that_a_library_hung_on_its_own_logger_counts_too(tmp_path):
    setup = "logging.getLogger('some').addHandler(logging.StreamHandler(sys.stdout))"
    out, error = run(tmp_path, setup)
    assert out == ["a row"]
    assert "of a library" in error


def test_a_program_that_asks_for_py4j_s_lines_gets_them_on_stderr(tmp_path):
    setup = "logging.basicConfig(stream=sys.stdout); logging.getLogger('py4j').setLevel(logging.INFO)"
    out, error = run(tmp_path, setup)
    assert out == ["a row"]
    assert error == ["WARNING:some.library:of a library", *(f"{x}:py4j.java_gateway:{y}" for x, y in TOLD)]


TOLD = [("INFO", "chatter"), ("WARNING", "trouble")]
