"""The operators' scripts in examples/ops."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pystate.common.files.home import read_json
from tests.core.snapshot.snapshots import write_savepoint
from tests.ops.jobmanager.harness import REPOSITORY, eventually
from tests.waiting import LONGEST_S

OPS = REPOSITORY / "examples" / "ops"
Script = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def script(manager, tmp_path, monkeypatch) -> Script:
    commands = tmp_path / "bin"
    commands.mkdir()
    # the savepoints of fake drivers have nothing in them that could be tried, or deleted
    (commands / "pystate").write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$*" >>"{tmp_path}/calls"\n'
        f'case "$1 $2" in info*) exec cat "{tmp_path}/fits" >&2 ;; "savepoint -d") exit 0 ;; esac\n'
        f'exec "{sys.executable}" -m pystate_cli "$@"\n'
    )
    (tmp_path / "fits").write_text("it fits\n")
    (commands / "pystate").chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
    for name in ("SAVEPOINT", "SAVEPOINT_DIR", "RUN_OPTIONS"):
        monkeypatch.delenv(name, raising=False)

    def run(name: str, *words: object) -> subprocess.CompletedProcess[str]:
        command = [str(OPS / name), *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S)

    return run


def submission(manager, job: str) -> dict[str, object]:
    return dict(read_json(manager.home.job(job).submission))


def calls(tmp_path: Path, *commands: str) -> list[str]:
    """Return what the script has called of these commands, in order."""
    return [line for line in (tmp_path / "calls").read_text().splitlines() if line.split()[0] in commands]


def start(manager, *words: str) -> str:
    job = manager.submit("--name", "word count", "--write-savepoint", *words)
    manager.wait_for(job, "RUNNING")
    return str(job)


@pytest.mark.parametrize("name", sorted(path.name for path in OPS.iterdir()))
def test_a_script_is_careful_and_explains_itself(script, name):
    text = (OPS / name).read_text()
    assert "\nset -euo pipefail\n" in text
    assert os.access(OPS / name, os.X_OK)

    done = script(name)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"  {name} JOB" in done.stderr


def test_upgrade_starts_the_new_program_where_the_old_one_stopped(manager, script, tmp_path, monkeypatch):
    old = start(manager)
    monkeypatch.setenv("SAVEPOINT_DIR", str(tmp_path / "my savepoints"))
    monkeypatch.setenv("RUN_OPTIONS", "-p 3 -n")

    done = script("upgrade.sh", "word count", manager.job_file, "an argument", "-p")

    assert done.returncode == 0, done.stderr
    new = done.stdout.strip()
    assert (manager.state(old), manager.state(new)) == ("FINISHED", "RUNNING")
    given = submission(manager, new)
    assert given["savepoint_path"] == f"{tmp_path}/my savepoints/savepoint-{old[:6]}-0123456789ab"
    assert given["arguments"] == ["an argument", "-p"]
    assert (given["parallelism"], given["allow_non_restored_state"]) == (3, True)
    trial = f"{tmp_path}/my savepoints/savepoint-{old[:6]}-0123456789ab"
    asked = [line.split()[0] for line in calls(tmp_path, "savepoint", "info", "stop", "run")]
    assert asked == ["savepoint", "info", "savepoint", "stop", "run"], "tried before the old job is stopped"
    assert calls(tmp_path, "info") == [f"info -s {trial} -p 3 -n {manager.job_file} an argument -p"]
    assert f"savepoint -d {trial}" in calls(tmp_path, "savepoint"), "what was tried is deleted"


@pytest.mark.parametrize(
    ("name", "words"), [("upgrade.sh", ("word count", "PROGRAM")), ("rescale.sh", ("word count", "5", "PROGRAM"))]
)
def test_the_old_job_goes_on_where_the_program_does_not_fit(manager, script, tmp_path, monkeypatch, name, words):
    old = start(manager)
    monkeypatch.setenv("SAVEPOINT_DIR", str(tmp_path))
    (tmp_path / "fits").unlink()

    done = script(name, *(str(manager.job_file) if word == "PROGRAM" else word for word in words))

    assert (done.returncode, done.stdout) == (1, "")
    assert "fit; the reason is above. The job goes on as before." in done.stderr
    assert manager.state(old) == "RUNNING"
    assert calls(tmp_path, "stop", "run") == []
    assert len(calls(tmp_path, "savepoint")) == 2, "what was tried is deleted"


def test_fork_starts_nothing_where_a_program_does_not_fit(manager, script, tmp_path, monkeypatch):
    origin = start(manager)
    monkeypatch.setenv("SAVEPOINT_DIR", str(tmp_path))
    (tmp_path / "fits").unlink()

    done = script("fork.sh", origin, manager.job_file, manager.job_file)

    assert (done.returncode, done.stdout) == (1, "")
    assert "does not fit the savepoint; the reason is above. Nothing was started." in done.stderr
    assert calls(tmp_path, "run") == []


def test_upgrade_leaves_the_old_job_alone_when_its_savepoint_fails(manager, script, tmp_path, monkeypatch):
    old = start(manager, "--savepoint-fails")
    monkeypatch.setenv("SAVEPOINT_DIR", str(tmp_path))

    done = script("upgrade.sh", old[:8], manager.job_file)

    assert (done.returncode, done.stdout) == (1, "")
    assert "The job goes on as before" in done.stderr
    assert manager.state(old) == "RUNNING"
    assert len(manager.request("GET", "/jobs")[1]["jobs"]) == 1


def test_upgrade_does_nothing_without_a_new_program(manager, script):
    old = start(manager)

    assert script("upgrade.sh", old, "nosuch.py").returncode == 2
    assert manager.state(old) == "RUNNING"


def test_upgrade_says_the_way_back_when_the_new_program_does_not_start(manager, script, tmp_path, monkeypatch):
    old = start(manager)
    monkeypatch.setenv("SAVEPOINT_DIR", str(tmp_path))

    done = script("upgrade.sh", old, manager.job_file, "--fail-init")

    assert (done.returncode, done.stdout) == (1, "")
    assert "error: The savepoint does not fit." in done.stderr
    assert f"pystate run -d -s {tmp_path}/savepoint-{old[:6]}-0123456789ab OLD_JOB.PY" in done.stderr


def test_rescale_starts_the_same_program_with_another_parallelism(manager, script, tmp_path, monkeypatch):
    old = start(manager)
    monkeypatch.setenv("SAVEPOINT_DIR", str(tmp_path))

    done = script("rescale.sh", "word count", 5, manager.job_file, "--name", "word count")

    assert done.returncode == 0, done.stderr
    given = submission(manager, done.stdout.strip())
    assert (given["parallelism"], given["arguments"]) == (5, ["--name", "word count"])
    assert str(given["savepoint_path"]).startswith(f"{tmp_path}/savepoint-{old[:6]}")


def test_rescale_starts_the_job_as_it_was_when_the_new_parallelism_is_refused(manager, script, tmp_path, monkeypatch):
    start(manager)
    monkeypatch.setenv("SAVEPOINT_DIR", str(tmp_path))

    done = script("rescale.sh", "word count", 5, manager.job_file, "--most", 4)

    assert done.returncode == 1
    assert "It was NOT rescaled." in done.stderr
    new = done.stdout.strip()
    assert manager.state(new) == "RUNNING"
    assert submission(manager, new)["parallelism"] is None


@pytest.mark.parametrize("parallelism", ["0", "x", "-1", ""])
def test_rescale_checks_its_number_before_it_stops_anything(manager, script, parallelism):
    old = start(manager)

    done = script("rescale.sh", old, parallelism, manager.job_file)

    assert (done.returncode, done.stdout) == (2, "")
    assert manager.state(old) == "RUNNING"


def environment(manager, job: str) -> dict[str, str]:
    return dict(read_json(manager.home.job(job).environment))


def test_fork_starts_two_jobs_from_one_savepoint_of_a_third_that_goes_on(manager, script, tmp_path, monkeypatch):
    origin = start(manager)
    other = tmp_path / "other.py"
    other.write_text("print('never run')\n")
    monkeypatch.setenv("SAVEPOINT_DIR", str(tmp_path / "my savepoints"))
    monkeypatch.setenv("RUN_OPTIONS", "-p 3")

    done = script("fork.sh", "word count", manager.job_file, other, "an argument")

    assert done.returncode == 0, done.stderr
    forks = done.stdout.split()
    assert [manager.state(job) for job in (origin, *forks)] == ["RUNNING"] * 3
    given = [submission(manager, job) for job in forks]
    assert [one["job_file"] for one in given] == [str(manager.job_file), str(other)]
    assert {one["savepoint_path"] for one in given} == {f"{tmp_path}/my savepoints/savepoint-{origin[:6]}-0123456789ab"}
    assert [(one["arguments"], one["parallelism"]) for one in given] == [(["an argument"], 3)] * 2
    assert [environment(manager, job)["FORK"] for job in forks] == ["a", "b"]


def test_fork_takes_a_savepoint_that_is_there(manager, script, tmp_path, monkeypatch):
    origin = start(manager)
    location = write_savepoint(tmp_path / "home" / "savepoints")
    monkeypatch.setenv("SAVEPOINT", "0123")

    done = script("fork.sh", origin, manager.job_file, manager.job_file)

    assert done.returncode == 0, done.stderr
    assert {submission(manager, job)["savepoint_path"] for job in done.stdout.split()} == {location.uri}
    assert not list(manager.home.job(origin).operations.iterdir()), "no other one was taken"


def test_a_fork_is_both_jobs_or_none(manager, script, tmp_path, monkeypatch):
    origin = start(manager)
    (tmp_path / "broken.py").write_text("this is no Python\n")
    monkeypatch.setenv("SAVEPOINT_DIR", str(tmp_path))

    done = script("fork.sh", origin, manager.job_file, tmp_path / "broken.py")

    assert (done.returncode, done.stdout) == (1, "")
    assert "SyntaxError" in done.stderr
    states = {job["id"]: job["status"] for job in manager.request("GET", "/jobs")[1]["jobs"]}
    assert states.pop(origin) == "RUNNING"
    assert list(states.values()) == ["CANCELED"]


def test_fork_starts_nothing_without_a_savepoint(manager, script, tmp_path, monkeypatch):
    origin = start(manager, "--savepoint-fails")
    monkeypatch.setenv("SAVEPOINT_DIR", str(tmp_path))

    assert script("fork.sh", origin, manager.job_file, "nosuch.py").returncode == 2
    done = script("fork.sh", origin, manager.job_file, manager.job_file)
    assert (done.returncode, done.stdout) == (1, "")
    assert len(manager.request("GET", "/jobs")[1]["jobs"]) == 1


def old_savepoints(directory: Path, count: int) -> list[Path]:
    made = []
    for age in range(1, count + 1):
        folder = directory / f"savepoint-{age:06}-0000000000aa"
        folder.mkdir(parents=True)
        (folder / "_metadata").write_text("old")
        os.utime(folder / "_metadata", (1_000_000 - age, 1_000_000 - age))
        made.append(folder)
    return made


def test_the_nightly_savepoint_keeps_the_last_ones(manager, script, tmp_path):
    job = start(manager)
    directory = tmp_path / "nightly savepoints"
    old = old_savepoints(directory, 4)
    other = directory / "something else"
    other.mkdir()

    done = script("nightly_savepoint.sh", "word count", directory, 3)

    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{directory}/savepoint-{job[:6]}-0123456789ab\n"
    assert manager.state(job) == "RUNNING"
    assert sorted(directory.iterdir()) == sorted([other, Path(done.stdout.strip()), *old[:2]])


@pytest.mark.parametrize("words", [("--savepoint-fails",), ()])
def test_nothing_is_deleted_without_a_new_savepoint(manager, script, tmp_path, words):
    job = manager.submit(*words)  # without --write-savepoint the fake's savepoint has no _metadata
    manager.wait_for(job, "RUNNING")
    old = old_savepoints(tmp_path / "nightly", 4)

    done = script("nightly_savepoint.sh", job, tmp_path / "nightly", 1)

    assert (done.returncode, done.stdout) == (1, "")
    assert sorted((tmp_path / "nightly").iterdir()) == sorted(old)


def test_two_nightly_savepoints_at_once_are_one(manager, script, tmp_path):
    job = start(manager, "--savepoint", "2")
    directory = tmp_path / "nightly"
    command = [str(OPS / "nightly_savepoint.sh"), job, str(directory)]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    eventually(lambda: list(directory.glob(".*lock")))

    second = script("nightly_savepoint.sh", job, directory)

    assert second.returncode == 1
    assert "Another run is at work" in second.stderr
    first.communicate(timeout=LONGEST_S)
    assert first.returncode == 0
    assert not list(directory.glob(".*lock"))


@pytest.mark.parametrize("words", [("s3://bucket/x",), ("DIR", "0"), ("DIR", "x"), ("DIR", "1", "2")])
def test_wrong_calls_of_the_nightly_savepoint_do_nothing(manager, script, tmp_path, words):
    job = start(manager)

    assert script("nightly_savepoint.sh", job, *(word.replace("DIR", str(tmp_path / "d")) for word in words)).returncode == 2
    assert not (tmp_path / "d").exists()
