"""Deleting savepoints, sweeping up, messages, and ids in the place of paths."""

from __future__ import annotations

import json
import os

import pytest

from pystate.common.files.home import read_json
from tests.cli.terminal import TerminalCommand
from tests.core.snapshot.snapshots import V0, write_checkpoint, write_savepoint


def folder(location):
    return location.uri.removeprefix("file:")


@pytest.fixture
def savepoint(own_home):
    return write_savepoint(own_home / "savepoints")


def said_by(manager, job):
    (file,) = manager.home.job(job).operations.glob("*.json")
    return read_json(file)["said"]


@pytest.mark.parametrize("words", [("savepoints", "dispose"), ("savepoint", "-d"), ("savepoint", "--dispose")])
@pytest.mark.parametrize("by", ["id", "path"])
def test_dispose_says_what_flink_says(manager, pystate, savepoint, words, by):
    named = "0123" if by == "id" else folder(savepoint)

    assert pystate(*words, named) == (
        0,
        "",
        f"Disposing savepoint '{savepoint.uri}'.\nWaiting for response...\nSavepoint '{savepoint.uri}' disposed.\n",
    )
    assert not os.path.exists(folder(savepoint))


def test_dispose_works_without_a_job_manager(pystate, savepoint):
    assert pystate("savepoints", "dispose", "0123") == (
        0,
        "",
        f"Disposing savepoint '{savepoint.uri}'.\nSavepoint '{savepoint.uri}' disposed.\n",
    )
    assert not os.path.exists(folder(savepoint))


def test_dispose_is_refused_while_a_job_depends_on_it(manager, pystate, savepoint):
    job = manager.submit(savepoint_path=savepoint.uri)
    manager.wait_for(job, "RUNNING")
    sentence = f"error: Job {job} was started from it, has not ended, and has no checkpoint of its own yet.\n"

    for _ in range(2):
        code, out, err = pystate("savepoint", "-d", "0123")
        assert (code, out, sentence in err) == (1, "", True)
        assert f"Failed to dispose the savepoint '{savepoint.uri}'.\n" in err
        manager.home.jobmanager.unlink(missing_ok=True)  # and the same without one
    assert os.path.exists(folder(savepoint))


@pytest.mark.parametrize("named", [False, True], ids=["by the home", "by -m"])
@pytest.mark.parametrize(
    "words",
    [("savepoint", "JOB", "DIR"), ("stop", "-p", "DIR", "JOB"), ("cancel", "-s", "DIR", "JOB"), ("savepoint", "-d", "PATH")],
)
def test_commands_that_name_a_place_prove_that_they_may(manager, running, pystate, savepoint, tmp_path, words, named):
    given = {"JOB": running, "DIR": str(tmp_path / "sp"), "PATH": folder(savepoint)}
    address = ("-m", f"127.0.0.1:{manager.port}") if named else ()

    done = pystate(*[given.get(word, word) for word in words], *address)

    assert done.code == 0, done.err


def test_who_has_another_home_is_told_what_is_missing(manager, running, pystate, tmp_path, monkeypatch):
    address = f"127.0.0.1:{manager.port}"
    monkeypatch.setenv("PYSTATE_HOME", str(tmp_path / "stranger"))

    code, out, err = pystate("savepoint", running, str(tmp_path / "sp"), "-m", address)

    assert (code, out) == (1, "")
    assert "needs the token of the job manager's home, unless pystate.rest.allow-unauthenticated = true" in err
    assert "try: set PYSTATE_HOME to the home of that job manager" in err


@pytest.mark.parametrize("place", ["simplecache::file:///tmp/sp", "/tmp/s\nINFO forged", "http://192.0.2.1/sp"])
@pytest.mark.parametrize(
    "words", [("savepoint", "JOB", "PLACE"), ("savepoint", "-d", "PLACE"), ("savepoints", "list", "PLACE")]
)
def test_what_can_be_no_place_is_refused(manager, running, pystate, words, place):
    done = pystate(*[{"JOB": running, "PLACE": place}.get(word, word) for word in words])

    assert done.code in (1, 2)
    assert done.err.startswith("error: ") or "\nerror: " in done.err
    assert "\nINFO" not in done.err


@pytest.mark.parametrize(
    "words", [("savepoint",), ("savepoint", "abcd", "-d", "x"), ("savepoint", "-d", "x", "--message", "y")]
)
def test_a_savepoint_command_is_one_thing_or_the_other(manager, pystate, words):
    assert pystate(*words).code == 2


# -- messages


@pytest.mark.parametrize(
    "words", [("savepoint", "JOB", "DIR"), ("stop", "-p", "DIR", "JOB"), ("cancel", "-s", "DIR", "JOB")]
)
def test_a_message_reaches_the_driver(manager, running, pystate, tmp_path, words):
    given = [{"JOB": running, "DIR": str(tmp_path / "sp")}.get(word, word) for word in words]

    assert pystate(*given, "--message", "  vor dem Umbau: ä  ").code == 0
    assert said_by(manager, running) == "vor dem Umbau: ä"


@pytest.mark.parametrize("text", ["", " ", "a\nb", "a\x1b[2Jb", "x" * 501])
def test_messages_that_are_no_line_are_refused(manager, running, pystate, text):
    code, out, err = pystate("savepoint", running, "/tmp/sp", "--message", text)

    assert (code, out) == (2, "")
    assert err.startswith("error: A savepoint's message ")
    body = {"target-directory": "/tmp/sp", "message": text or "\n"}
    assert manager.request("POST", f"/jobs/{running}/savepoints", body)[0] == 400


def test_a_message_needs_a_savepoint(manager, running, pystate):
    assert pystate("cancel", running, "--message", "x").code == 2
    assert manager.state(running) == "RUNNING"


# -- run -s ID


def test_run_starts_from_an_id(manager, pystate, savepoint):
    job = pystate("run", "-d", "-s", "0123", manager.job_file).out.strip()

    assert read_json(manager.home.job(job).submission)["savepoint_path"] == savepoint.uri


def test_run_looks_for_ids_where_its_own_options_say(manager, pystate, tmp_path):
    location = write_savepoint(tmp_path / "mine", snapshot_id="bbbb11112222")
    option = f"execution.checkpointing.savepoint-dir={tmp_path}/mine"

    assert pystate("run", "-d", "-s", "bbbb", manager.job_file).code == 1
    job = pystate("run", "-d", "-D", option, "-s", "bbbb", manager.job_file).out.strip()
    assert read_json(manager.home.job(job).submission)["savepoint_path"] == location.uri


def test_run_starts_from_the_id_of_a_checkpoint(manager, pystate, own_home):
    location = write_checkpoint(own_home / "checkpoints", 7)
    job = pystate("run", "-d", "-s", "83f146-chk-7", manager.job_file).out.strip()

    assert read_json(manager.home.job(job).submission)["savepoint_path"] == location.uri


@pytest.mark.parametrize(("text", "code"), [("0123", 2), ("ffff", 1)])
def test_run_starts_nothing_from_an_id_that_means_none_or_several(manager, pystate, own_home, savepoint, text, code):
    write_savepoint(own_home / "savepoints", snapshot_id="0123ffffffff")

    assert pystate("run", "-d", "-s", text, manager.job_file).code == code
    assert manager.request("GET", "/jobs")[1]["jobs"] == []


# -- gc


def litter(directory):
    orphan = directory / "savepoint-83f146-bbbbbbbbbbbb" / "abcdef012345-0-keyed-0011aabb"
    orphan.parent.mkdir(parents=True)
    orphan.write_bytes(b"12345")
    os.utime(orphan, (1, 1))
    return orphan.parent


def test_gc_lists_and_deletes_nothing_with_dry_run(pystate, own_home, savepoint):
    orphan = litter(own_home / "savepoints")

    assert pystate("savepoints", "gc", "--dry-run") == (
        0,
        f"kind        size_bytes  path\nINCOMPLETE  5           file:{orphan}\n",
        "1 orphan, 5 B. Nothing was deleted.\n",
    )
    assert orphan.exists()
    assert json.loads(pystate("savepoints", "gc", "--dry-run", "--json").out) == {
        "orphans": [{"kind": "INCOMPLETE", "path": f"file:{orphan}", "bytes": 5}],
        "deleted": False,
    }


def test_gc_on_a_terminal_shows_a_table_of_what_would_go(own_home, savepoint):
    orphan = litter(own_home / "savepoints")
    command = TerminalCommand("savepoints", "gc", "--dry-run", columns=240)
    try:
        assert command.end() == 0
    finally:
        command.close()

    heading, _, row, *_ = command.screen.text.splitlines()
    assert heading.split() == ["What", "Size", "Path"]
    assert row.split() == ["snapshot", "that", "never", "completed", "5", "B", f"file:{orphan}"]


def test_gc_deletes_when_told_so(pystate, own_home, savepoint):
    orphan = litter(own_home / "savepoints")

    assert pystate("savepoints", "gc", "--yes").err == "1 of 1 orphan, 5 B deleted.\n"
    assert not orphan.exists()
    assert os.path.exists(f"{folder(savepoint)}/_metadata")
    assert pystate("savepoints", "gc", "--yes").err == "Nothing to delete.\n"


def test_gc_without_anybody_to_ask_deletes_nothing(pystate, own_home, monkeypatch):
    orphan = litter(own_home / "savepoints")
    monkeypatch.setattr("sys.stdin", open(os.devnull))

    code, _, err = pystate("savepoints", "gc")

    assert (code, orphan.exists()) == (2, True)
    assert "--yes deletes without asking" in err


@pytest.mark.parametrize(("answer", "deleted"), [(b"y\n", True), (b"\n", False), (b"n\n", False)])
def test_gc_asks_on_a_terminal(own_home, answer, deleted):
    orphan = litter(own_home / "savepoints")
    command = TerminalCommand("savepoints", "gc")
    try:
        command.wait_for(lambda text: "Delete 1 orphan, 5 B? [y/N]" in text)
        command.press(answer)
        assert command.end() == 0
    finally:
        command.close()
    assert orphan.exists() is not deleted


def test_gc_leaves_the_checkpoints_of_running_jobs_alone(manager, running, pystate, own_home):
    for job in (running, V0):
        file = own_home / "checkpoints" / job / "chk-3" / "abcdef012345-0-keyed-0011aabb"
        file.parent.mkdir(parents=True)
        file.write_bytes(b"x")
        os.utime(file, (1, 1))

    out = pystate("savepoints", "gc", "--dry-run", "--jobs").out

    assert out.splitlines()[1:] == [f"UNKNOWN_JOB  1           file:{own_home}/checkpoints/{V0}"]
