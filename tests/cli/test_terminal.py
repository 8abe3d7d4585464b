"""What a person sees: the live view of an attached run, the bar of a savepoint, --watch."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator

import pytest

from tests.cli.terminal import Screen, TerminalCommand
from tests.ops.jobmanager.harness import eventually
from tests.runtime.checkpoint.stats.statistics import Statistics


@pytest.fixture
def terminal(manager) -> Iterator[Callable[..., TerminalCommand]]:
    commands: list[TerminalCommand] = []

    def start(*words: object, **size: int) -> TerminalCommand:
        commands.append(TerminalCommand(*words, **size))
        return commands[-1]

    yield start
    for command in commands:
        command.close()


def only_job(manager) -> str:
    return str(eventually(lambda: manager.request("GET", "/jobs")[1]["jobs"])[0]["id"])


def write_checkpoints(manager, job: str, *numbers: int) -> None:
    Statistics().run(*numbers).write(manager.home.job(job).checkpoints)


@pytest.mark.parametrize("size", [{"columns": 80, "rows": 24}, {"columns": 160, "rows": 8}])
def test_the_live_view_of_a_run_leaves_nothing_behind(manager, terminal, size):
    words = ("--name", "word count", "--epochs", "20", "--print-every", "120", "--finish", "6", "--warn")
    command = terminal("run", manager.job_file, "--", *words, **size)
    job = only_job(manager)
    manager.wait_for(job, "RUNNING")
    write_checkpoints(manager, job, 1, 2)

    command.wait_for(lambda text: re.search(r"epoch \d+ +in [\d,]+ rows/s +out [\d,]+ rows/s", text))
    command.wait_for(lambda text: "2 triggered: 2 completed" in text)
    command.wait_for(lambda text: re.search(r"^ *2 +checkpoint.*110 ms.*27\.3 KB", text, re.MULTILINE))
    assert f"word count  {job}" in command.screen.text
    assert "● RUNNING" in command.screen.text

    assert command.end() == 0
    lines = command.screen.text.splitlines()
    assert lines[0] == f"Job has been submitted with JobID {job}"
    lines.remove("warning: the operator 'map' has no uid")  # told once the job runs, when it may have printed already
    assert lines[-3:-1] == ["Program execution finished", f"Job with JobID {job} has finished."]
    printed = [line for line in lines[1:-3] if line != f"line {len(lines) - 5}"]
    assert printed == [f"line {number} end" for number in range(len(printed))], "prints and view are mixed up"
    assert len(printed) > 10
    assert command.is_restored


def test_a_line_that_is_printed_in_pieces_is_never_split_by_the_view(manager, terminal):
    command = terminal("run", manager.job_file, "--epochs", "20", "--print-every", "200", "--finish", "2.5")

    assert command.end() == 0

    assert any("● RUNNING" in text for text in command.seen)
    for text in command.seen:
        assert not re.search(r"line \d+(?! end|\d)(?=.)", text), text


def test_two_ctrl_c_on_a_terminal_cancel_the_job_and_restores_the_terminal(manager, terminal):
    command = terminal("run", manager.job_file, "--epochs", "20", columns=120)
    command.wait_for(lambda text: "● RUNNING" in text)
    job = only_job(manager)

    command.press(b"\x03")
    command.wait_for(lambda text: "Ctrl-C once more within 3 seconds cancels it." in text)
    command.press(b"\x03")

    assert command.end() == 130
    assert command.screen.text.replace("^C", "").splitlines() == [
        f"Job has been submitted with JobID {job}",
        f"Let go of job {job}, which goes on. Ctrl-C once more within 3 seconds cancels it.",
        f"Cancelling job {job}. Ctrl-C once more leaves at once.",
        f"Cancelled job {job}.",
    ]
    assert manager.state(job) == "CANCELED"
    assert command.is_restored


def test_ctrl_c_while_the_job_is_cancelled_leaves_at_once(manager, terminal):
    command = terminal("run", "-sae", manager.job_file, "--epochs", "20", "--cancel", "30")
    command.wait_for(lambda text: "● RUNNING" in text)
    job = only_job(manager)

    command.press(b"\x03")
    command.wait_for(lambda text: "Ctrl-C once more" in text and "The job is ending" in text)
    command.press(b"\x03")

    assert command.end() == 130
    assert f"Job {job} is still being cancelled." in command.screen.text
    assert command.is_restored


def test_a_run_that_is_told_to_end_restores_the_terminal_and_leaves_the_job(manager, terminal):
    command = terminal("run", manager.job_file, "--epochs", "20")
    command.wait_for(lambda text: "● RUNNING" in text)

    os.kill(command.process.pid, signal.SIGTERM)

    assert command.end() == 128 + signal.SIGTERM
    assert command.is_restored
    assert "RUNNING" not in command.screen.text
    assert manager.state(only_job(manager)) == "RUNNING"


def test_failures_are_told_above_the_spinner_of_a_detached_run(manager, terminal):
    command = terminal("run", "-d", manager.job_file, "--fail-starts", "1", "1.5")

    assert command.end() == 0
    lines = command.screen.text.splitlines()
    assert lines[1] == "warning: attempt 0 failed and the job restarts: ConnectionError: at 0x0"
    assert lines[-1] == only_job(manager)
    assert "The job is starting" not in command.screen.text
    assert command.is_restored


@pytest.mark.parametrize(
    "words", [("savepoint", "JOB", "/tmp/s"), ("stop", "-p", "/tmp/s", "JOB"), ("cancel", "-s", "/tmp/s", "JOB")]
)
def test_a_bar_shows_how_far_a_savepoint_is(manager, terminal, words):
    job = manager.submit("--savepoint", "1.5")
    manager.wait_for(job, "RUNNING")

    command = terminal(*(job if word == "JOB" else word for word in words), columns=160)

    command.wait_for(lambda text: re.search(r"The savepoint is being written .* 1/2 acknowledged +2\.00 KB", text))
    assert command.end() == 0
    assert "being written" not in command.screen.text
    assert f"\n/tmp/s/savepoint-{job[:6]}-0123456789ab" in command.screen.text
    assert command.is_restored


def test_checkpoints_are_watched_until_q(manager, running, terminal):
    write_checkpoints(manager, running, 1)
    command = terminal("checkpoints", running, "--watch", "-n", "0.2")
    command.wait_for(lambda text: "1 triggered: 1 completed" in text)
    write_checkpoints(manager, running, 1, 2)
    command.wait_for(lambda text: "2 triggered: 2 completed" in text)

    command.press(b"x")
    command.press(b"q")

    assert command.end() == 0
    text = command.screen.text
    assert text.count("Triggered") == 1, "it is drawn in place"
    assert "x" not in text.splitlines()[-1], "keys aren't echoed"
    assert command.is_restored


def test_checkpoints_are_watched_until_the_job_ends(manager, running, terminal):
    write_checkpoints(manager, running, 1)
    command = terminal("checkpoints", running, "--watch", "-n", "0.2", columns=60, rows=10)
    command.wait_for(lambda text: "is RUNNING (q: quit)." in text)

    manager.request("PATCH", f"/jobs/{running}")

    assert command.end() == 0
    assert command.screen.text.splitlines()[-1] == f"Job {running} is CANCELED."


def test_a_checkpoint_is_watched_until_it_is_complete(manager, running, terminal):
    path = manager.home.job(running).checkpoints
    statistics = Statistics().trigger(1).acknowledge(1, "count", 1).write(path)
    command = terminal("checkpoints", running, "1", "--watch", "-n", "0.2", columns=160)
    command.wait_for(lambda text: re.search(r"^ +0 +… pending", text, re.MULTILINE) and "acknowledged 1/3" in text)

    statistics.acknowledge(1, "count", 0).acknowledge(1, "total", 0).complete(1).write(path)

    assert command.end() == 0
    text = command.screen.text
    assert text.count("checkpoint 1 ") == 1, "it is drawn in place"
    assert "✓ COMPLETED" in text
    assert "pending" not in text
    assert text.splitlines()[-1] == f"Job {running} is RUNNING."
    assert command.is_restored


@pytest.mark.parametrize("words", [("1",), ("--summary",)])
def test_what_has_no_room_on_a_watched_terminal_is_counted(manager, running, terminal, words):
    Statistics().trigger(1).acknowledge(1, "count", 1).write(manager.home.job(running).checkpoints)
    command = terminal("checkpoints", running, *words, "--watch", "-n", "0.2", columns=60, rows=14)
    command.wait_for(lambda text: "(q: quit)." in text)

    command.press(b"q")

    assert command.end() == 0
    assert len(command.screen.text.splitlines()) <= 13
    assert ("3 more" in command.screen.text) == (words == ("1",))


def test_a_path_that_is_longer_than_a_line_is_not_broken(manager, running, terminal):
    Statistics(folder="/data/" + "checkpoints" * 8).run(1).write(manager.home.job(running).checkpoints)
    for words in ((), ("1",)):
        command = terminal("checkpoints", running, *words, columns=60)
        assert command.end() == 0
        assert f"file:/data/{'checkpoints' * 8}" in command.screen.text.replace("\n", "").replace(" ", "")
        assert not any("checkpoints\r\n" in seen for seen in command.raw)


def test_failures_on_a_terminal_stand_one_below_the_other_with_what_to_do_at_the_end(manager, terminal):
    job = manager.submit("--restart", "1", "10", "--die", "0", "7")
    manager.wait_for(job, "FAILED")

    command = terminal("exceptions", job)

    assert command.end() == 0
    first, second, hint = "\n".join(line.rstrip() for line in command.screen.text.splitlines()).split("\n\n")
    for attempt, block in ((1, first), (0, second)):
        head, told = block.splitlines()
        assert head.startswith(f"attempt {attempt}  ") and head.endswith("  DriverLostError")
        assert told == "  The driver process ended with exit code 7."
    assert hint.replace("\n", "") == f"try: see {manager.home.job(job).log}"


def test_a_list_that_is_too_long_for_the_terminal_is_counted(manager, terminal):
    jobs = [manager.submit() for _ in range(6)]
    for job in jobs:
        manager.wait_for(job, "RUNNING")
    command = terminal("list", "--watch", "-n", "0.2", rows=8)
    command.wait_for(lambda text: "2 more (q: quit)." in text)

    command.press(b"\x03")

    assert command.end() == 0
    assert command.screen.text.count("RUNNING") == 4
    assert command.is_restored


def test_a_dumb_terminal_gets_plain_lines(manager, terminal, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr("tests.cli.terminal.TERM", "dumb")
    command = terminal("run", manager.job_file, "--epochs", "20", "--print", "1", "--finish", "0.5")

    assert command.end() == 0
    assert "RUNNING" not in "".join(command.seen)
    assert "1> line 0\nafter the end\nProgram execution finished" in command.screen.text


def test_the_screen_of_these_tests_knows_its_top():
    screen = Screen(10, 2)

    screen.feed("one\r\ntwo\r\nthree")
    with pytest.raises(AssertionError, match="past the top"):
        screen.feed("\x1b[2A")
