"""A program of another home finds the job manager that leads, and registers with the one that takes its place."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ops.jobmanager.harness import PYTHON_PATH, ManagerProcess, eventually
from tests.ops.jobmanager.high_availability.conftest import wait_until_leads
from tests.ops.jobmanager.registration.made_registrations import JOB
from tests.ops.jobmanager.registration.programs import PROGRAM_FILE


@pytest.mark.parametrize("job_managers", ["folder"], indirect=True)
def test_a_program_finds_the_leader_and_registers_with_the_next_one(
    job_managers: Callable[[str], ManagerProcess], tmp_path: Path
) -> None:
    leader = job_managers("a")
    wait_until_leads(leader)
    standby = job_managers("b")
    home = tmp_path / "elsewhere"
    home.mkdir()
    shutil.copy(standby.home.token, home / "token")
    command = [sys.executable, PROGRAM_FILE, str(home), JOB, f"127.0.0.1:{standby.port}", json.dumps({})]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"PYTHONPATH": PYTHON_PATH}
    ) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == b"runs\n"
            eventually(lambda: leader.state(JOB) == "RUNNING")
            leader.kill()
            wait_until_leads(standby)
            eventually(lambda: standby.request("GET", f"/jobs/{JOB}/status")[0] == 200)
            assert standby.state(JOB) == "RUNNING"
            assert program.stdin is not None
            program.stdin.write(b"\n")
            program.stdin.close()
            eventually(lambda: standby.state(JOB) == "FINISHED")
        finally:
            program.kill()
