"""`python -m pystate.ops.warm_start.class_data_training`: creates the archive of Spark's classes if there is none.

It runs a small job that loads the usual classes: files, an exchange, slots, a checkpoint. Its JVM writes the archive when it
    ends. That takes a core for half a minute and about 160 MB of disk, at the lowest priority so that it doesn't disturb
    other processes.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.checkpointing_options import CheckpointingOptions
from pystate.common.configuration.groups.job_manager_options import JobManagerOptions
from pystate.common.errors import PystateError
from pystate.common.files.folders import make_private_folder
from pystate.common.files.home import PystateHome
from pystate.common.processes.java import find_java
from pystate.ops.warm_start.practice_job import run_practice_job
from pystate.runtime.driver.embedded import LocalExecutor
from pystate.runtime.spark.sessions.class_data_archive import archive_path, recording_options, remove_unused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UNUSED_SECONDS = 30 * 24 * 3600.0
_NICE = 19


def main() -> int:
    """Create the archive; return the exit code."""
    try:
        java = find_java()
    except PystateError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    path = archive_path(java, os.environ)
    if path is None:
        print("This Java shares no class data, so there is no archive to make.", file=sys.stderr)
        return 0
    make_private_folder(path.parent)
    remove_unused(path.parent, time.time() - _UNUSED_SECONDS)
    if path.exists():
        print(path)
        return 0
    with _alone(path) as is_alone:
        if not is_alone:
            print("Another process makes the archive.", file=sys.stderr)
            return 0
        os.nice(_NICE)
        with tempfile.TemporaryDirectory(prefix="pystate-class-data-") as folder:
            part = path.with_suffix(".part")
            part.unlink(missing_ok=True)
            train(Path(folder), part)
        if not part.exists():
            print("Java has written no archive.", file=sys.stderr)
            return 1
        part.replace(path)
    print(path)
    return 0


def train(folder: Path, archive: Path) -> None:
    """Run the job in a separate JVM, and wait for its end.

    Args:
        folder: For the job's files.
        archive: The archive that the JVM writes.
    """
    configuration = Configuration({"spark.driver.extraJavaOptions": recording_options(archive)})
    configuration.set(JobManagerOptions.CLASS_DATA_ARCHIVE, False)
    configuration.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, 100)
    configuration.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, (folder / "checkpoints").as_uri())
    executor = LocalExecutor(configuration, PystateHome(folder / "home"))
    with contextlib.redirect_stdout(sys.stderr):
        run_practice_job(executor, folder / "in")
    _end(executor.spark_session(configuration))


def _end(spark: SparkSession) -> None:
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 - nobody else knows the process
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[bool]:
    """Yield whether no other process creates the same archive at the moment."""
    with path.with_suffix(".lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


if __name__ == "__main__":
    sys.exit(main())
