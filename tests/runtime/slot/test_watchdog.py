"""What a process writes whose interpreter is held, or that ends, as the driver reads it."""

import multiprocessing
import os
import select
import subprocess
import sys

import pytest

from pystate.runtime.execution.slots.crash_output import crash_cause, held_at
from pystate.runtime.slot.watchdog import keep_from_children
from tests.waiting import LONGEST_S

PROGRAM = """
import ctypes, os, sys, threading
from pystate.runtime.slot import watchdog


class Client:
    def call(self, op, **identity):
        pass

    def fileno(self):
        return 1

    def close(self):
        pass


def process_element():
    {code}


watchdog.SIGN_INTERVAL_S = 0.2
dog = watchdog.Watchdog(Client(), {{"slot": 0, "attempt": 0}})
dog.reset()
{call}
dog.close()
print("closed")
"""


def words_of(tmp_path, code, call="process_element()"):
    program = tmp_path / "job.py"
    program.write_text(PROGRAM.format(code=code, call=call))
    ended = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=LONGEST_S)
    return ended.stdout, ended.returncode


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("os._exit(3)", "os._exit(3)"),
        ("ctypes.string_at(0)", "Segmentation fault"),
        ("os.abort()", "Aborted"),
    ],
)
def test_a_function_that_ends_its_process_says_so_with_its_line(tmp_path, code, cause):
    words, status = words_of(tmp_path, code)
    assert crash_cause(words) == f"{cause}, line 18 in process_element of {tmp_path}/job.py"
    if cause == "os._exit(3)":
        assert status == 3


def test_a_child_that_a_function_forks_ends_as_it_likes(tmp_path):
    words, status = words_of(tmp_path, "os.fork() or os._exit(3); os.wait()")
    assert (words, status) == ("closed\n", 0)
    assert crash_cause(words) is None


def test_the_watchdog_writes_while_native_code_holds_the_interpreter(tmp_path):
    words, status = words_of(tmp_path, "ctypes.PyDLL(None).usleep(700_000)")
    assert status == 0
    assert words.count("Timeout") >= 2
    assert f"{tmp_path}/job.py" in words
    assert held_at(words.removesuffix("closed\n")) is None, "none of its threads runs a subtask"


def test_a_child_that_lives_on_does_not_hide_the_end_of_its_process():
    read, written = os.pipe()
    ours = [written]
    keep_from_children(ours)
    asked, answers = multiprocessing.get_context("fork").Pipe()
    child = multiprocessing.get_context("fork").Process(target=asked.recv, daemon=True)
    child.start()
    ours.clear()
    os.close(written)  # as the end of the process does
    try:
        assert select.select([read], [], [], 30)[0] == [read]
        assert os.read(read, 1) == b""
        assert child.is_alive()
    finally:
        answers.send(None)
        child.join()
        os.close(read)
