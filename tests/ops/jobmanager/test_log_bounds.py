"""What a driver prints stays within its bound at any time; no job manager is needed for it."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from pystate.common.files.home import PystateHome, new_job_id, read_json
from pystate.common.processes.control import new_secret
from pystate.ops.jobmanager.drivers.driver_process import DriverLauncher
from pystate.runtime.job_folder.submission import Submission, SubmissionFile
from pystate.runtime.logs.log_reader import log_extent
from pystate.runtime.logs.pieces import is_written, pieces
from tests.faults.processes import needs_proc
from tests.ops.jobmanager.harness import eventually

BOUND = 4 << 20
PROGRAM = """
import sys
for number in range({lines}):
    print(f"{{number:09d}}" + "x" * 90)
    if number % 10 == 0:
        print(f"{{number:09d}}" + "e" * 90, file=sys.stderr)
"""


def printing(tmp_path: Path, *, attached: bool, lines: int):
    home = PystateHome(tmp_path / "home")
    directory = home.job(new_job_id())
    directory.path.mkdir(parents=True)
    directory.secret.write_bytes(new_secret())
    program = tmp_path / "job.py"
    program.write_text(PROGRAM.format(lines=lines))
    configuration = {"pystate.log.max-size": f"{BOUND} b"}
    submission = Submission(
        str(program), [], str(tmp_path), None, None, False, configuration, attached=attached, python=sys.executable
    )
    SubmissionFile.of(submission, directory.path.name, 0).write_to(directory.submission)
    return directory, DriverLauncher(home).start(directory.path.name, submission, {})


def logs_on_disk(folder: Path) -> int:
    """Return the bytes of all logs at one moment; 0 where a file came or went while they were counted."""

    def names() -> set[str]:
        return {name for name in os.listdir(folder) if name.startswith(("stdout", "job.log"))}

    found = names()
    try:
        total = sum(Path(folder, name).stat().st_size for name in found)
    except FileNotFoundError:
        return 0
    return total if names() == found else 0


@pytest.mark.parametrize("attached", [True, False])
def test_what_a_job_prints_never_takes_more_than_the_bound(tmp_path, attached):
    lines = 100_000
    directory, driver = printing(tmp_path, attached=attached, lines=lines)
    out = directory.stdout if attached else directory.log
    most = 0
    while (driver._process.poll() is None) or is_written(out) or is_written(directory.log):
        most = max(most, logs_on_disk(directory.path))
    most = max(most, logs_on_disk(directory.path))  # a busy machine may have looked at changing files only

    assert driver.wait() == 1, "the program has no job"
    assert BOUND // 2 < most <= BOUND
    printed = [path.read_bytes() for _, path in pieces(out)] + [out.read_bytes()]
    assert f"{lines - 1:09d}".encode() + b"x" * 90 + b"\n" in b"".join(printed)
    end = log_extent(out)[1]
    assert end == lines * 100 if attached else end > lines * 110
    files = [path for path in directory.path.iterdir() if path.name.startswith((".job.log", "job.log", "stdout", ".stdout"))]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


@needs_proc
def test_a_driver_prints_on_when_the_process_that_writes_its_log_is_killed(tmp_path):
    directory, driver = printing(tmp_path, attached=False, lines=200_000)

    def writers() -> list[int]:
        return [int(name) for name in filter(str.isdigit, os.listdir("/proc")) if is_writer_of(name, str(directory.log))]

    eventually(lambda: log_extent(directory.log)[1] > 1 << 20)
    for pid in writers():
        os.kill(pid, signal.SIGKILL)
    assert driver.wait() == 1
    eventually(lambda: not is_written(directory.log))
    kept = [path.read_bytes() for _, path in pieces(directory.log)] + [directory.log.read_bytes()]
    assert b"000199999" + b"x" * 90 in b"".join(kept)
    failure = read_json(directory.status)["failure"]
    assert "never calls execute" in failure["message"]


def is_writer_of(pid: str, log: str) -> bool:
    try:
        words = Path("/proc", pid, "cmdline").read_bytes().decode().split("\0")
    except (OSError, UnicodeDecodeError):
        return False
    return log in words and any("pystate.runtime.logs.pump" in word for word in words)
