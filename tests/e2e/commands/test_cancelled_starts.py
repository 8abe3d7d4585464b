"""A job is cancelled before its program has come to `execute()`: its driver ends, whatever the program does meanwhile."""

import json

import pytest

from pystate.common.processes.processes import started_at
from tests.e2e.commands.test_command_line import Shell
from tests.waiting import wait_until

PROGRAMS = {
    "waits": "import time\nprint('here', flush=True)\nwhile True:\n    time.sleep(1)\n",
    "is busy": "print('here', flush=True)\nwhile True:\n    pass\n",
    "takes no signal": """
import time
print('here', flush=True)
while True:
    try:
        time.sleep(1)
    except BaseException:
        print('no', flush=True)
""",
}


@pytest.fixture
def shell(tmp_path):
    made = Shell(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("does", PROGRAMS)
def test_a_cancel_ends_a_program_that_does_not_come_to_its_job(shell, tmp_path, does):
    program = tmp_path / "job.py"
    program.write_text(PROGRAMS[does])
    shell("run", "-d", "--timeout", "0", program, exit_code=1)  # it goes on
    (job,) = (folder.name for folder in (shell.home / "jobs").iterdir())
    shell.wait_for_log(job, "here")
    pid = json.loads((shell.home / "jobs" / job / "driver.json").read_text())["pid"]
    shell("cancel", job)
    assert json.loads(shell("list", "-a", "--json").stdout)["jobs"][0]["state"] == "CANCELED"
    wait_until(lambda: started_at(pid) is None)
