"""Streams as other programs may leave them, and a home that is none: sentences, and no stack traces."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PRINTING = """
from pystate.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1]).map(lambda one: print("x" * 100_000)).print()
env.execute()
"""


def in_a_shell(words: str, around: str) -> tuple[int, str, str]:
    """Run a command in a shell, which redirects its streams."""
    command = around.replace("PYSTATE", f"{sys.executable} -m pystate_cli {words}")
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("words", ["version", "version --json"])
@pytest.mark.parametrize(
    ("redirected", "why"), [("PYSTATE >/dev/full", "No space left on device"), ("PYSTATE >&-", "Bad file descriptor")]
)
def test_a_result_that_can_not_be_written_is_a_sentence(words, redirected, why):
    code, _, err = in_a_shell(words, redirected)

    assert code == 1
    assert err.splitlines()[0] == f"error: The result can't be written to stdout: {why}."
    assert "itself" not in err
    assert "Exception ignored" not in err


def test_a_help_that_can_not_be_written_is_a_sentence():
    code, _, err = in_a_shell("--help", "PYSTATE >/dev/full")

    assert (code, err.splitlines()[0]) == (1, "error: No space left on device.")
    assert "itself" not in err


def without_reader(*words: object, stderr: bool = False) -> tuple[int, bytes]:
    """Run a command whose stdout, or that and stderr, is a pipe that nobody reads; return its exit code and its stderr."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "pystate_cli", *map(str, words)]
    done = subprocess.run(command, stdout=writer, stderr=writer if stderr else subprocess.PIPE, check=False)
    os.close(writer)
    return done.returncode, done.stderr or b""


@pytest.mark.parametrize("words", ["version", "config --json", "run --help"])
def test_a_command_ends_without_a_word_where_nobody_reads_it(words):
    assert without_reader(*words.split()) == (1, b"")


def test_a_command_ends_where_nobody_reads_its_errors_either():
    assert without_reader("nosuch", stderr=True)[0] == 1


def test_a_function_in_the_debugger_that_prints_to_nobody_has_not_failed(tmp_path):
    (tmp_path / "job.py").write_text(PRINTING)

    assert without_reader("debug", "--json", "--record", "1", tmp_path / "job.py") == (1, b"")


def test_what_is_told_goes_nowhere_where_stderr_is_closed():
    assert in_a_shell("list", "PYSTATE 2>&-") == (1, "", "")
    assert in_a_shell("version", "PYSTATE 2>&- <&-")[0] == 0


@pytest.mark.parametrize("below", ["", "/below"])
@pytest.mark.parametrize("words", [("list",), ("doctor",), ("cluster", "status"), ("config",)])
def test_a_home_that_is_a_file(pystate, tmp_path, monkeypatch, below, words):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PYSTATE_HOME", f"{tmp_path}/file{below}")

    code, _, err = pystate(*words)

    assert code == 2
    assert err == (
        f"error: The folder of this installation can't be {tmp_path}/file{below}: {tmp_path}/file is not a folder.\n"
        "  try: PYSTATE_HOME names another one\n"
    )
    assert pystate("version").code == 0, "it needs no home"


def test_a_file_that_the_system_refuses_is_named(pystate, monkeypatch):
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "/some/file")

    monkeypatch.setattr("pystate_cli.session.Session.connect", refused)

    code, _, err = pystate("list")

    assert (code, err.splitlines()[:2]) == (1, ["error: Permission denied.", "  at: /some/file"])
