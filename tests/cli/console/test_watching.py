"""`--watch` in a pipe."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.cli.test_terminal import write_checkpoints
from tests.waiting import LONGEST_S


def test_a_pipe_gets_a_block_per_change_until_the_job_ends(manager, running):
    write_checkpoints(manager, running, 1)
    command = [sys.executable, "-m", "pystate_cli", "checkpoints", running, "--watch", "-n", "0.1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    first = [process.stdout.readline().split() for _ in range(2)]
    assert [line[0] for line in first] == ["id", "1"]

    write_checkpoints(manager, running, 1, 2)
    second = [process.stdout.readline().split() for _ in range(4)]
    assert [line[:1] for line in second] == [[], ["id"], ["2"], ["1"]]

    manager.request("PATCH", f"/jobs/{running}")
    assert process.communicate(timeout=LONGEST_S)[0] == "", "a look like the one before is not printed"
    assert process.returncode == 0


def test_a_checkpoint_that_can_not_change_any_more_is_shown_once(manager, running, pystate):
    write_checkpoints(manager, running, 1)

    code, out, err = pystate("checkpoints", running, "1", "--watch")

    assert (code, err) == (0, "")
    assert len(out.splitlines()) == 9


def test_a_job_that_has_ended_is_shown_once(manager, pystate):
    job = manager.submit("--finish", "0")
    manager.wait_for(job, "FINISHED")

    code, out, err = pystate("checkpoints", job, "--watch")

    assert (code, err) == (0, "")
    assert out.startswith("id ")
    assert out.count("\n") == 1


def test_a_reader_that_went_away_is_no_bug_of_ours(manager, running):
    command = [sys.executable, "-m", "pystate_cli", "list", "--watch", "-n", "0.1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()

    assert process.wait(LONGEST_S) == 1
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()


def test_watch_shows_no_json(manager, running, pystate):
    assert pystate("list", "--watch", "--json").code == 2
    assert pystate("checkpoints", running, "--watch", "--json").code == 2
    assert json.loads(pystate("list", "--json").out)["jobs"]


def test_wrong_intervals_are_refused(pystate):
    assert pystate("list", "--watch", "-n", "0").code == 2
    assert pystate("list", "--watch", "-n", "x").code == 2
