"""Seconds from the kill of a leading job manager until another one has taken over all jobs, per kind of storage.

    python benchmarks/recovery/takeover.py [ROUNDS]

Two job managers with homes of their own on one machine, and drivers without Spark, which live on. The lease lasts 5 s; what
is shown is without it: the check that finds the lease free, reading all jobs' files, and rewriting the records.
*s3* is moto's server on loopback, which takes some milliseconds per request; Amazon's takes 10 to 50.
"""

import contextlib
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "runtime"), str(ROOT)]

from benchmarks.keyed_count import machine
from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.file_system_settings import initialize
from tests.ops.jobmanager.harness import ManagerProcess, eventually
from tests.ops.jobmanager.high_availability.conftest import LONG_LEASE, raw_get, standby_options
from tests.servers.s3_server import running_s3_server

LEASE_SECONDS = float(LONG_LEASE["lease-duration"].removesuffix(" s"))


def takeover(root, storage, jobs):
    """Return the seconds from the kill to the first answer of the next leader, without the lease."""
    managers = []
    try:
        for name in ("one", "two"):
            (root / name).mkdir(parents=True)
            managers.append(ManagerProcess(root / name / "home", standby_options(storage, LONG_LEASE)).start())
            if name == "one":
                eventually(lambda: raw_get(managers[0], "/jobs")[0] == 200, 120)
        submitted = [managers[0].submit() for _ in range(jobs)]
        for job in submitted:
            managers[0].wait_for(job, "RUNNING")
        time.sleep(1)  # the standby has seen a renewal
        managers[0].kill()
        killed = time.monotonic()
        eventually(lambda: raw_get(managers[1], "/jobs")[0] == 200, 120)
        seconds = time.monotonic() - killed
        assert {managers[1].state(job) for job in submitted} == {"RUNNING"}
        return seconds - LEASE_SECONDS
    finally:
        for manager in managers:
            with contextlib.suppress(ProcessLookupError):
                manager.stop()


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    print(machine(), f"load average {os.getloadavg()[0]:.1f}\n")
    print("| storage | jobs | median, s | least | most |")
    print("|---|---|---|---|---|")
    with running_s3_server() as server, tempfile.TemporaryDirectory() as folder:
        initialize(Configuration(server.options))
        for jobs in (1, 10):
            for kind in ("folder", "s3"):
                times = []
                for number in range(rounds):
                    root = Path(folder, f"{kind}-{jobs}-{number}")
                    storage = str(root / "ha") if kind == "folder" else f"s3://{server.new_bucket()}/ha"
                    times.append(takeover(root, storage, jobs))
                print(
                    f"| {kind} | {jobs} | {statistics.median(times):.2f} | {min(times):.2f} | {max(times):.2f} |", flush=True
                )


if __name__ == "__main__":
    main()
