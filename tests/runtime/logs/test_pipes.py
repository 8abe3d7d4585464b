"""What a process prints goes through another one into a log that has a bound, whatever dies meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pystate.runtime.logs.log_reader import log_extent
from pystate.runtime.logs.log_writer import LogBounds
from pystate.runtime.logs.pieces import is_written, pieces
from pystate.runtime.logs.pipes import LogPipes
from tests.waiting import wait_until

BOUNDS = LogBounds(max_bytes=1 << 20, old_pieces=3)


def whole(log: Path) -> bytes:
    return b"".join(path.read_bytes() for _, path in pieces(log)) + log.read_bytes()


@pytest.fixture
def log(tmp_path):
    return tmp_path / "job.log"


def test_all_that_was_printed_is_there_when_the_pipes_are_closed(log):
    pipes = LogPipes([log], BOUNDS)
    os.write(pipes.writing_end(log), b"one\n")
    wait_until(lambda: is_written(log))
    os.write(pipes.writing_end(log), b"two\n")
    pipes.close()
    assert log.read_bytes() == b"one\ntwo\n"
    assert not is_written(log)


def test_another_process_writes_on_when_the_first_one_is_killed(log):
    pipes = LogPipes([log], BOUNDS)
    os.write(pipes.writing_end(log), b"before\n")
    wait_until(lambda: log.exists() and log.read_bytes() == b"before\n")
    first = pipes.pid
    os.kill(first, signal.SIGKILL)
    # more than the pipe holds: it must be read on, and nobody gets a signal or an error
    os.write(pipes.writing_end(log), b"x" * (3 << 20))
    os.write(pipes.writing_end(log), b"\nafter\n")
    pipes.close()
    assert pipes.pid != first
    assert log_extent(log)[1] == (3 << 20) + len(b"before\n\nafter\n")
    assert whole(log).endswith(b"x\nafter\n")


def test_the_logs_are_written_here_when_no_process_can_be_started(log, monkeypatch):
    pipes = LogPipes([log], BOUNDS)

    def refused(_: LogPipes) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(LogPipes, "_start", refused)
    os.kill(pipes.pid, signal.SIGKILL)
    os.write(pipes.writing_end(log), b"x" * (3 << 20) + b"\nlast\n")
    wait_until(lambda: log.exists() and log.read_bytes().endswith(b"\nlast\n"))
    pipes.close()


PRINTS = """
import os, sys, time
from pathlib import Path
from pystate.runtime.logs.pipes import print_into
from pystate.runtime.logs.log_writer import LogBounds
folder = Path(sys.argv[1])
print_into([folder / "stdout", folder / "job.log"], LogBounds(1 << 20, 3))
if not os.fork():
    print("child waits", file=sys.stderr, flush=True)
    os.read(int(sys.argv[2]), 1)
    print("child ends", file=sys.stderr, flush=True)
    os._exit(0)
for number in range(int(sys.argv[3])):
    print(f"{number:09d}" + "x" * 90)
sys.stdout.flush()
os.kill(os.getpid(), 9)
"""


def test_the_last_words_of_a_killed_process_and_of_what_it_left_are_kept(tmp_path):
    reading, writing = os.pipe()
    command = [sys.executable, "-c", PRINTS, str(tmp_path), str(reading), "20000"]
    done = subprocess.run(command, pass_fds=[reading], check=False)
    assert done.returncode == -signal.SIGKILL
    os.close(reading)
    stdout, log = tmp_path / "stdout", tmp_path / "job.log"
    # the child holds both pipes
    wait_until(lambda: log_extent(stdout)[1] == 20_000 * 100)
    assert whole(stdout).endswith(b"000019999" + b"x" * 90 + b"\n")
    assert is_written(stdout)
    os.close(writing)
    wait_until(lambda: not is_written(log) and not is_written(stdout))
    assert log.read_bytes() == b"child waits\nchild ends\n"
