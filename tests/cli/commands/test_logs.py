"""`pystate logs`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pystate_cli.client.job_output import JobOutput


def log_of(manager, job):
    return manager.home.job(job).log


def test_logs_prints_the_log_as_it_is(manager, running, pystate):
    log_of(manager, running).write_bytes(b"one\ntwo \xff\nthree")

    finished = subprocess.run([sys.executable, "-m", "pystate_cli", "logs", running], capture_output=True)

    assert (finished.returncode, finished.stdout, finished.stderr) == (0, b"one\ntwo \xff\nthree", b"")


@pytest.mark.parametrize(
    ("lines", "text"),
    [(0, ""), (1, "e\n"), (2, "dd\ne\n"), (4, "bb\n\ndd\ne\n"), (5, "aaa\nbb\n\ndd\ne\n"), (99, "aaa\nbb\n\ndd\ne\n")],
)
def test_tail_begins_with_the_last_lines(manager, running, pystate, lines, text):
    log_of(manager, running).write_text("aaa\nbb\n\ndd\ne\n")

    assert pystate("logs", running, "--tail", lines) == (0, text, "")


def test_tail_of_a_log_without_an_end_of_line(manager, running, pystate):
    log_of(manager, running).write_text("aaa\nbb")

    assert pystate("logs", running, "--tail", 1).out == "bb"
    assert pystate("logs", running, "--tail", 2).out == "aaa\nbb"


def test_tail_of_a_large_log_reads_its_end_only(manager, running, monkeypatch):
    lines = [f"line {number:06}" for number in range(300_000)]
    log_of(manager, running).write_text("\n".join(lines) + "\n")
    from pystate.common.files.home import PystateHome
    from pystate_cli.client.job_manager import find_job_manager

    client = find_job_manager(PystateHome(manager.home.root), None, 10)
    asked: list[str] = []
    read = client.read
    monkeypatch.setattr(client, "read", lambda path: asked.append(path) or read(path))
    output = JobOutput(client, running, "log")

    offset = output.offset_of_last(20_000)

    assert b"".join(output.from_(offset, follow=False)).decode().splitlines() == lines[-20_000:]
    assert len(asked) < 10


def test_a_log_that_has_lost_its_beginning_says_so(manager, running, pystate):
    log = log_of(manager, running)
    log.write_text("old\n")
    log.with_name(f"{log.name}.{1000:016}").write_text("older\n")

    code, out, err = pystate("logs", running)

    assert (code, out) == (0, "older\nold\n")
    assert err == "The first 1,000 bytes of the log are gone: it had grown too large.\n"
    assert pystate("logs", running, "--tail", "2") == (0, "older\nold\n", "")
    assert pystate("logs", running, "--tail", "9") == (0, "older\nold\n", "")


def test_a_log_that_is_not_there_yet_is_empty(manager, pystate):
    job = manager.submit("--finish", "0")
    manager.wait_for(job, "FINISHED")
    log_of(manager, job).unlink()

    assert pystate("logs", job) == (0, "", "")
    assert pystate("logs", job, "--tail", 3) == (0, "", "")


def test_follow_ends_with_the_job(manager, pystate):
    job = manager.submit("--finish", "1")
    manager.wait_for(job, "RUNNING")

    code, out, err = pystate("logs", job, "-f", "--tail", "1")

    assert (code, out, err) == (0, "a line of noise\n", "")
    assert manager.state(job) == "FINISHED"


def test_stdout_is_what_an_attached_job_prints(manager, pystate):
    job = manager.submit("--print", "2", "--finish", "0", attached=True)
    manager.wait_for(job, "FINISHED")

    assert pystate("logs", job, "--stdout", "-f").out == "1> line 0\n1> line 1\nafter the end\n"


def test_wrong_calls_of_logs(manager, pystate):
    assert pystate("logs", "0" * 32).err == f"error: There is no job with id {'0' * 32}.\n  try: pystate list -a\n"
    assert pystate("logs", "--tail", "-1", "0" * 32).code == 2


def test_who_reads_more_slowly_than_the_job_prints_is_told_what_is_gone(manager, running):
    from pystate.common.files.home import PystateHome
    from pystate_cli.client.job_manager import find_job_manager

    log = log_of(manager, running)
    log.write_text("first\n")
    client = find_job_manager(PystateHome(manager.home.root), None, 10)
    lost: list[int] = []
    output = JobOutput(client, running, "log", lost=lost.append)
    data, _, offset = output.read_on(0)
    assert (data, offset) == (b"first\n", 0)
    log.with_name(f"{log.name}.{1000:016}").write_text("kept\n")

    assert output.read_on(6) == (b"kept\n", False, 1000)
    assert lost == [994]
