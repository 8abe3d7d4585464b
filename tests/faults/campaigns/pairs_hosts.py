"""Where the job of the campaign of pairs runs: detached, as an operator has it, or in the test's process."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pystate.common.errors import PystateError
from pystate.common.files.home import read_json
from pystate.common.processes.processes import started_at
from pystate.runtime.job_folder.temporary_folders import folder_prefix
from tests.e2e.commands.test_command_line import Shell
from tests.faults.campaigns import pairs_bare_driver, pairs_job
from tests.faults.campaigns.campaign import victims_of
from tests.faults.campaigns.pairs_readers import Snapshots
from tests.faults.processes import children, command_of, daemons_below, is_gone, is_slot
from tests.faults.test_killed_drivers import Job
from tests.servers.kafka_broker import spark_jars
from tests.waiting import LONGEST_S, wait_until


def temporary_folders(prefix: str) -> list[str]:
    """Return the folders of a job's slots that are left."""
    return [str(path) for root in {"/dev/shm", tempfile.gettempdir()} for path in Path(root).glob(f"{prefix}*")]


class Seen:
    """Processes that were seen, with their beginnings: another one soon has the number of one that is gone."""

    def __init__(self) -> None:
        self._began: set[tuple[int, str]] = set()

    def note(self, pids: Iterable[int]) -> None:
        """Note processes, but those that are gone."""
        self._began.update((pid, began) for pid in pids if (began := started_at(pid)) is not None)

    def left(self) -> list[int]:
        """Return those that live."""
        return [pid for pid, began in self._began if started_at(pid) == began]


class DetachedHost:
    """A driver of its own under a job manager, by commands.

    Args:
        root: A folder.
    """

    def __init__(self, root: Path) -> None:
        self._shell = Shell(root, timeout=900)
        self._job = Job(self._shell, root)
        self._settings = root / "settings.json"
        self._seen = Seen()
        self._ids: list[str] = []
        self._savepoints = root / "savepoints"
        self.roots = (self._shell.home / "checkpoints", self._savepoints)
        self._snapshots = Snapshots(*self.roots)

    def start(self, settings: dict[str, Any], options: dict[str, str], path: str | None) -> None:
        """Run it with `pystate run -d`."""
        self._settings.write_text(json.dumps(settings))
        options = {**options, "spark.jars": ",".join(spark_jars()), "pystate.spark.master": "local[24,4]"}
        given = [part for key, value in options.items() for part in ("-D", f"{key}={value}")]
        resumed = [] if path is None else ["-s", path]
        done = self._shell("run", "-d", *given, *resumed, pairs_job.__file__, self._settings)
        self._job.id = done.stdout.strip()
        self._job.directory = self._shell.home / "jobs" / self._job.id
        self._ids.append(self._job.id)

    def attempt(self) -> object:
        """Return the job and the number of its attempt."""
        return self._job.id, self._status.get("attempt")

    @property
    def _status(self) -> dict[str, Any]:
        return self._job.status or {}

    def restarts(self) -> int:
        """Return the number of the last attempt."""
        return int(self._status["attempt"])

    def check(self) -> None:
        """Fail with the end of the log where the job has failed."""
        if self._ids and self._status.get("state") == "FAILED":
            raise AssertionError(json.dumps(self._status, indent=1) + self._job.log[-5000:])

    def is_running(self) -> bool:
        """Ask the job's status."""
        return self._status.get("state") == "RUNNING"

    def victims(self) -> dict[str, list[int]]:
        """Find them below the driver."""
        driver = self._driver()
        found: dict[str, list[int]] = {"slot": [], "worker": [], "daemon": []}
        if driver is not None:
            found["daemon"] = daemons_below(driver)
            for pid in sorted(pid for daemon in found["daemon"] for pid in children(daemon)):
                found["slot" if is_slot(pid) else "worker"].append(pid)
            found["driver"] = [driver]
            found["JVM"] = [pid for pid in children(driver) if command_of(pid).partition(" ")[0].endswith("java")]
        found["job manager"] = [self._job.job_manager]
        return found

    def _driver(self) -> int | None:
        said = read_json(self._job.directory / "process.json") or {}
        return int(said["pid"]) if said and started_at(said["pid"]) == said["started"] else None

    def came_back(self, kind: str) -> None:
        """Start the job manager again; all else comes back by itself."""
        if kind == "job manager":
            wait_until(lambda: is_gone(self._job.job_manager))
            self._job.start_job_manager()

    def stop(self, *, drain: bool) -> str | None:
        """Stop it with `pystate stop`."""
        asked, more = time.time(), ["--drain"] if drain else []
        try:
            path = re.sub("^file:", "", self._shell("stop", *more, "-p", self._savepoints, self._job.id).stdout.strip())
        except (AssertionError, subprocess.TimeoutExpired):
            # its answer was an error, and the next attempt may end after the savepoint
            with contextlib.suppress(AssertionError):
                wait_until(lambda: self._status.get("state") in ("RUNNING", "FINISHED"), 300)
            if self._status.get("state") != "FINISHED":
                return None
            path = self._snapshots.newest(asked)
        wait_until(lambda: self._status.get("state") == "FINISHED", 300)
        return path

    def left(self) -> list[str]:
        """Look for processes of its drivers, slots and workers, and for folders of its slots."""
        wait_until(lambda: not self._seen.left())
        return [folder for job in self._ids for folder in temporary_folders(folder_prefix(job))]

    def close(self) -> None:
        """Kill what runs."""
        self._shell.close()


class BareHost:
    """A driver without Spark, of the real-time engine: its slots are processes, and its relays are threads.

    A driver that was killed has no job manager: another one is started from the newest checkpoint.

    Args:
        root: A folder.
    """

    def __init__(self, root: Path) -> None:
        self._root, self._log = root, root / "driver.log"
        self.roots = (root / "checkpoints", root / "savepoints")
        self._snapshots = Snapshots(*self.roots)
        self._process: subprocess.Popen[str] | None = None
        self._given: tuple[dict[str, Any], dict[str, str]] = {}, {}
        self._path: str | None = None
        self._jobs, self._restarts, self._began = 0, 0, 0.0
        self._seen = Seen()
        self._last: dict[str, Any] = {}
        self._lock = threading.Lock()

    def start(self, settings: dict[str, Any], options: dict[str, str], path: str | None) -> None:
        """Run it."""
        self._given, self._path, self._began = (settings, options), path, time.time()
        self._begin(path)

    def _begin(self, path: str | None) -> None:
        settings, options = self._given
        resumed = {} if path is None else {"execution.state-recovery.path": path}
        checkpoints, savepoints = map(str, self.roots)
        places = {"execution.checkpointing.dir": checkpoints, "execution.checkpointing.savepoint-dir": savepoints}
        parallelism = {"parallelism": int(options["parallelism.default"])}
        more = {key: value for key, value in options.items() if key not in ("parallelism.default", "execution.engine")}
        self._jobs += 1
        files = [self._root / f"{name}-{self._jobs}.json" for name in ("settings", "options")]
        for file, content in zip(files, (settings, {**more, **places, **resumed, **parallelism}), strict=True):
            file.write_text(json.dumps(content))
        command = [sys.executable, pairs_bare_driver.__file__, *map(str, files), str(self._root / f"job-{self._jobs}")]
        with self._log.open("ab") as log:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log}
            self._process = subprocess.Popen(command, text=True, **pipes)  # type: ignore[call-overload]

    def _ask(self, **question: Any) -> dict[str, Any]:
        """Return the answer; of a driver that has gone that it has."""
        with self._lock, contextlib.suppress(BrokenPipeError, ValueError, AttributeError):
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            self._last = json.loads(self._process.stdout.readline())
            return self._last
        return {"error": None, "slots": [], "state": "RESTARTING"}

    def attempt(self) -> object:
        """Return the driver and the number of its attempt."""
        return self._jobs, self._last.get("attempt")

    def restarts(self) -> int:
        """Return the number of the last attempt of this driver, and how many drivers there were before."""
        restarts, self._restarts = self._restarts, 0
        return restarts + max(self._last.get("attempt") or 0, 0)

    def check(self) -> None:
        """Start a driver that was killed at a step again; fail with the end of the log where the job has failed."""
        if self._process is not None and self._process.poll() is not None:
            self.came_back("driver")
        if self._last.get("error") is not None and "slots" in self._last:
            raise AssertionError(f"{self._last['error']}\n{self._log.read_text()[-5000:]}")

    def is_running(self) -> bool:
        """Ask the driver."""
        return bool(self._ask().get("state") == "RUNNING")

    def victims(self) -> dict[str, list[int]]:
        """Return the driver and its slots."""
        assert self._process is not None
        slots = [pid for pid in self._ask()["slots"] if not is_gone(pid)]
        self._seen.note(slots)
        return {"slot": slots, "driver": [self._process.pid]}

    def came_back(self, kind: str) -> None:
        """Start a driver from the newest checkpoint, or from what the one before was started from."""
        if kind == "driver" and self._process is not None:
            self._process.wait()
            self._restarts += 1
            self._begin(self._snapshots.newest(self._began) or self._path)

    def stop(self, *, drain: bool) -> str | None:
        """Stop it."""
        path = self._ask(drain=drain).get("path")
        if path is not None:
            self.close()
            self._process = None
        return None if path is None else str(path).removeprefix("file:")

    def left(self) -> list[str]:
        """Look for slots that outlive their driver."""
        wait_until(lambda: not self._seen.left())
        return []

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


class EmbeddedHost:
    """The test's process is the driver.

    Args:
        run_job: The fixture of that name.
        spark: The session.
        root: The folder of `run_job`.
    """

    def __init__(self, run_job: Any, spark: Any, root: Path) -> None:
        self._run_job, self._spark = run_job, spark
        self.roots = (root / "checkpoints", root / "savepoints")
        self._snapshots = Snapshots(*self.roots)
        self._jobs: list[Any] = []

    def start(self, settings: dict[str, Any], options: dict[str, str], path: str | None) -> None:
        """Run it on a thread."""
        resumed = {} if path is None else {"execution.state-recovery.path": path}
        self._jobs.append(self._run_job(lambda: pairs_job.run(settings), {**options, **resumed}))

    def attempt(self) -> object:
        """Return the job and the number of its attempt."""
        return len(self._jobs), self._jobs[-1].status["attempt"]

    def restarts(self) -> int:
        """Return the number of the last attempt."""
        return int(self._jobs[-1].status["attempt"])

    def check(self) -> None:
        """Raise what the job raised."""
        if self._jobs and self._jobs[-1].error is not None:
            raise self._jobs[-1].error

    def is_running(self) -> bool:
        """Ask the job's status."""
        return bool(self._jobs[-1].status["state"] == "RUNNING")

    def victims(self) -> dict[str, list[int]]:
        """Find them below Spark."""
        return victims_of(self._jobs[-1], self._spark)

    def came_back(self, kind: str) -> None:
        """Do nothing: all comes back by itself."""

    def stop(self, *, drain: bool) -> str | None:
        """Stop it."""
        asked, job = time.time(), self._jobs[-1]
        try:
            saved = job.master.savepoint(str(self.roots[1]), stop=True, cancel=False, drain=drain)
            path = str(saved.result(LONGEST_S).path)
        except PystateError:
            if job.status["state"] != "FINISHED":
                return None
            path = str(self._snapshots.newest(asked))
        job.result()
        return path.removeprefix("file:")

    def left(self) -> list[str]:
        """Look for folders of its slots."""
        return [folder for job in self._jobs for folder in temporary_folders(folder_prefix(job.job_id))]
