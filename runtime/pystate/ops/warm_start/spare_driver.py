"""A spare driver: `python -m pystate.ops.warm_start.spare_driver --home DIR --spare ID`, controlled by pipes.

It creates a Spark session, runs a small job in it if asked to, and waits for a real job. Commands come from stdin, see
`pystate.runtime.job_folder.spare_messages`; if that closes before it has a job, e.g. because the job manager ended, it ends
as well.
"""

from __future__ import annotations

import argparse
import os
import queue
import shutil
import sys
import threading
import traceback
from pathlib import Path
from typing import IO, TYPE_CHECKING

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.checkpointing_options import CheckpointingOptions
from pystate.common.configuration.groups.execution_options import CoreOptions
from pystate.common.files.folders import make_private_folder
from pystate.common.files.home import PystateHome, parse_job_id
from pystate.ops.warm_start.practice_job import run_practice_job
from pystate.runtime.driver.__main__ import end_process, run_driver
from pystate.runtime.driver.embedded import LocalExecutor
from pystate.runtime.job_folder.spare_messages import SPARE_VARIABLE, SpareReport, TakenJob, WarmUp
from pystate.runtime.logs.pipes import log_pipe
from pystate.runtime.spark.sessions.warm_session import WarmSession

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LAST_BYTES = 2000


class PracticeExecutor(LocalExecutor):
    """Runs the small job in an existing session.

    Args:
        session: The session.
        folder: For the job's files.
        spare_id: The id of the job.
    """

    def __init__(self, session: SparkSession, folder: Path, spare_id: str) -> None:
        # one subtask: each takes memory for as long as the spare waits, and the daemon that forks others exists then
        configuration = Configuration({CoreOptions.DEFAULT_PARALLELISM.key: "1"})
        configuration.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, 100)
        configuration.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, (folder / "checkpoints").as_uri())
        super().__init__(configuration, PystateHome(folder / "home"))
        self._session = session
        self._job_id = spare_id


class SpareDriver:
    """Warms up, and waits for a job.

    Args:
        home: The installation.
        told: Commands of the job manager.
        answer: Receives the answers to it.
        pipe: The two ends of the pipe that this process and its JVM print to.
    """

    def __init__(self, home: PystateHome, told: IO[bytes], answer: IO[bytes], pipe: tuple[int, int]) -> None:
        self._home = home
        self._told = told
        self._answer = answer
        self._pipe = pipe
        self._jobs: queue.SimpleQueue[TakenJob] = queue.SimpleQueue()
        self._has_job = threading.Event()

    def run(self) -> int:
        """Run as a spare driver, then as a driver; return the exit code."""
        asked = WarmUp.from_line(self._told.readline())
        threading.Thread(target=self._await_job, name="job-manager", daemon=True).start()
        folder = self._home.spare_drivers / asked.spare_id
        try:
            make_private_folder(folder)
            session: WarmSession | None = self._warm(asked, folder)
        except Exception as error:  # whatever it is, it doesn't belong to a job
            traceback.print_exc()
            printed = self._printed()[-_LAST_BYTES:].decode(errors="replace")
            self._report(SpareReport(f"{type(error).__name__}: {error}\n{printed}"))
            if not self._has_job.is_set():
                return 1
            session = None  # the job makes its own, and reports what is wrong
        else:
            self._printed()  # of no job
            self._report(SpareReport())
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        job = self._jobs.get()
        os.environ.clear()
        os.environ.update({**job.environment, SPARE_VARIABLE: asked.spare_id})
        return run_driver(self._home, job.job_id, Path(job.job_file), job.arguments, session, self._pipe)

    def _warm(self, asked: WarmUp, folder: Path) -> WarmSession:
        session = WarmSession.make(Configuration(asked.configuration), folder)
        threading.Thread(target=self._await_jvm, args=(session,), name="jvm", daemon=True).start()
        if asked.practises:
            run_practice_job(PracticeExecutor(session.spark, folder, asked.spare_id), folder / "in")
            jvm = session.spark._jvm  # noqa: SLF001 - there is no public way to Java
            if jvm is not None:
                jvm.System.gc()  # an idle JVM releases unused memory only on request
        session.hide()
        return session

    def _await_job(self) -> None:
        line = self._told.readline()
        if not line.endswith(b"\n"):
            os._exit(0)  # the job manager has ended, or wants no spare any more; the JVM ends too, as its stdin closes
        self._has_job.set()
        self._jobs.put(TakenJob.from_line(line))

    def _await_jvm(self, session: WarmSession) -> None:
        session.jvm.wait()
        if not self._has_job.is_set():
            os._exit(1)

    def _report(self, report: SpareReport) -> None:
        self._answer.write(report.to_line())
        self._answer.close()

    def _printed(self) -> bytes:
        """Return the output so far, which nobody has read."""
        sys.stdout.flush()
        sys.stderr.flush()
        reading = self._pipe[0]
        os.set_blocking(reading, False)
        printed = b""
        try:
            while piece := os.read(reading, 1 << 16):
                printed += piece
        except BlockingIOError:
            return printed
        finally:
            os.set_blocking(reading, True)
        return printed


def main() -> int:
    """Run as a spare driver."""
    parser = argparse.ArgumentParser(prog="pystate.ops.warm_start.spare_driver", description="A driver without a job.")
    parser.add_argument("--home", required=True, help="the installation's folder (PYSTATE_HOME)")
    parser.add_argument("--spare", required=True, type=parse_job_id, help="32 hex digits")
    options = parser.parse_args()
    os.environ["PYSTATE_HOME"] = options.home
    told, answer = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    pipe = log_pipe()
    os.dup2(pipe[1], 1)
    os.dup2(pipe[1], 2)
    return SpareDriver(PystateHome(options.home), told, answer, pipe).run()


if __name__ == "__main__":
    end_process(main())
