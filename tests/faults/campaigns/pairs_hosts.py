"""Where the job of the campaign of pairs runs: detached, as an operator has it, or in the test's process."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg

from pystate.common.errors import PystateError
from pystate.runtime.job_folder.temporary_folders import folder_prefix
from tests.e2e.commands.test_command_line import Shell
from tests.faults.campaigns import pairs_job
from tests.faults.campaigns.campaign import victims_of
from tests.faults.campaigns.pairs_feeds import Feeds
from tests.faults.campaigns.pairs_readers import FileReader, KafkaReader, Snapshots, SqlReader, UpsertReader, noting_upserts
from tests.faults.processes import command_of, descendants, is_gone, is_slot
from tests.faults.test_killed_drivers import Job
from tests.servers.kafka_broker import spark_jars
from tests.waiting import wait_until


def temporary_folders(prefix: str) -> list[str]:
    """Return the folders of a job's slots that are left."""
    return [str(path) for root in {"/dev/shm", tempfile.gettempdir()} for path in Path(root).glob(f"{prefix}*")]


class DetachedHost:
    """A driver of its own under a job manager, by commands.

    Args:
        root: A folder.
    """

    def __init__(self, root: Path) -> None:
        self._shell = Shell(root, timeout=900)
        self._job = Job(self._shell, root)
        self._settings = root / "settings.json"
        self._drivers: set[int] = set()
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
            python = [pid for pid in descendants(driver) if "pyspark.daemon" in command_of(pid)]
            for pid in sorted(python):
                is_daemon = any(other in python for other in descendants(pid))
                found["daemon" if is_daemon else "slot" if is_slot(pid) else "worker"].append(pid)
            found["driver"] = [driver]
        found["job manager"] = [self._job.job_manager]
        return found

    def _driver(self) -> int | None:
        with contextlib.suppress(TypeError):  # there is none by now
            pid = self._job.driver
            if not is_gone(pid):
                self._drivers.add(pid)
                return pid
        return None

    def came_back(self, kind: str) -> None:
        """Start the job manager again; all else comes back by itself."""
        if kind == "job manager":
            wait_until(lambda: is_gone(self._job.job_manager))
            self._job.start_job_manager()

    def stop(self) -> str | None:
        """Stop it with `pystate stop`."""
        asked = time.time()
        try:
            path = re.sub("^file:", "", self._shell("stop", "-p", self._savepoints, self._job.id).stdout.strip())
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
        """Look for processes of its drivers and folders of its slots."""
        wait_until(lambda: all(is_gone(pid) for pid in self._drivers))
        processes = [f"process {pid}: {command_of(pid)}" for driver in self._drivers for pid in descendants(driver)]
        return processes + [folder for job in self._ids for folder in temporary_folders(folder_prefix(job))]

    def close(self) -> None:
        """Kill what runs."""
        self._shell.close()


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

    def stop(self) -> str | None:
        """Stop it."""
        asked, job = time.time(), self._jobs[-1]
        try:
            path = str(job.savepoint(self.roots[1], stop=True))
        except PystateError:
            if job.status["state"] != "FINISHED":
                return None
            path = self._snapshots.newest(asked)
        job.result()
        return path.removeprefix("file:")

    def left(self) -> list[str]:
        """Look for folders of its slots."""
        return [folder for job in self._jobs for folder in temporary_folders(folder_prefix(job.job_id))]


def prepare(sources: tuple[str, ...], broker: Any, database: Any, root: Path, chance: Any) -> tuple[Any, Any, Feeds]:
    """Make topics, tables and folders.

    Returns:
        What makes readers; the settings of the job; what feeds it.
    """
    tables = (pairs_job.COUNTS, pairs_job.UPSERTS)
    with psycopg.connect(database.url) as connection:
        for table in (*tables, "pystate_commits"):
            connection.execute(f"DROP TABLE IF EXISTS {table}")
        connection.execute(
            f"CREATE TABLE {tables[0]} (id BIGSERIAL PRIMARY KEY, word TEXT NOT NULL, number BIGINT NOT NULL)"
        )
        connection.execute(f"CREATE TABLE {tables[1]} (word TEXT PRIMARY KEY, number BIGINT NOT NULL)")
        connection.execute(noting_upserts())
    feeds = Feeds(sources, broker, root, chance)
    settings = {
        "sources": list(sources),
        "kafka": broker.address,
        "topic_in": feeds.topic,
        "topic_out": broker.new_topic(2, "out"),
        "topic_of_markers": broker.new_topic(8, "markers"),
        "folder_in": str(feeds.folder),
        "folder_out": str(root / "out"),
        "database": database.url,
        "faults": str(root / "faults"),
    }
    (root / "out").mkdir(parents=True)

    def readers() -> list[Any]:
        return [
            KafkaReader(broker, settings["topic_out"], settings["topic_of_markers"]),
            FileReader(root / "out"),
            SqlReader(database.url),
            UpsertReader(database.url),
        ]

    return readers, settings, feeds
