"""Seconds from a save of the program until the job runs with the new code, under `pystate dev`, and their parts.

    python benchmarks/recovery/dev_loop.py [ROUNDS] [PARALLELISM]

A job counts numbers. In each round a module of its program is changed once the spare driver is warm; the session tells how
long each part took. Below stands how long the next driver took to get warm.
"""

import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pystate.common.files.home import PystateHome
from pystate.runtime.rest.cluster_messages import SpareDriversInfo
from pystate_cli.client.job_manager import find_job_manager

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
from benchmarks.keyed_count import machine
from tests.e2e.commands.test_dev import PROGRAM  # the tests' program

COLUMNS = ("savepoint", "check", "stop", "start")
TOLD = re.compile(rf"Version (\d+) runs after ([\d.]+) s: {', '.join(f'{name} ([0-9.]+) s' for name in COLUMNS)}")
LONGEST_S = 600


def wait_for(condition, told):
    deadline = time.monotonic() + LONGEST_S
    while not (value := condition()):
        if time.monotonic() > deadline:
            sys.exit(f"it did not happen: {told.read_text()}")
        time.sleep(0.05)
    return value


def has_spare(home):
    client = find_job_manager(home, None, 60)
    return any(one.state == "READY" for one in client.get("/pystate/spare-drivers", SpareDriversInfo).spare_drivers)


def main():
    rounds, parallelism = (int(value) for value in (sys.argv[1:] + ["5", "2"][len(sys.argv) - 1 :]))
    rows = []
    with tempfile.TemporaryDirectory(prefix="pystate-benchmark-") as root:
        home, project, told = PystateHome(Path(root, "home")), Path(root, "project"), Path(root, "told")
        project.mkdir()
        (project / "job.py").write_text(PROGRAM)
        (project / "naming.py").write_text("NAME = 'v1'\n")
        environment = {**os.environ, "PYSTATE_HOME": str(home.root), "PYSTATE_CONF_DIR": str(ROOT / "conf")}
        command = [sys.executable, "-m", "pystate_cli", "dev", "-p", str(parallelism), str(project / "job.py")]
        with told.open("wb") as err:
            session = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=err)
        try:
            for number in range(1, rounds + 2):
                found = wait_for(lambda: [one for one in TOLD.findall(told.read_text()) if int(one[0]) == number], told)  # noqa: B023
                began = time.monotonic()
                rows.append([float(value) for value in found[0][1:]])
                if number <= rounds:
                    wait_for(lambda: has_spare(home), told)
                    rows[-1].append(time.monotonic() - began)
                    (project / "naming.py").write_text(f"NAME = 'v{number + 1}'\n")
        finally:
            session.send_signal(signal.SIGTERM)
            session.wait(LONGEST_S)
    ready = [row.pop() for row in rows[:-1]]
    print(machine())
    print(f"medians of {rounds} saves, s, parallelism {parallelism}, load average {os.getloadavg()[1]:.1f}\n")
    print(f"| | in all | {' | '.join(COLUMNS)} |\n|{'---|' * (len(COLUMNS) + 2)}")
    print(f"| first start | {' | '.join(f'{value:.1f}' for value in rows[0])} |")
    print(f"| a save | {' | '.join(f'{statistics.median(column):.1f}' for column in zip(*rows[1:], strict=True))} |")
    print(f"\nThe next driver is warm {statistics.median(ready):.0f} s after a version runs.")


if __name__ == "__main__":
    main()
