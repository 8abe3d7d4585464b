"""Has the archive of Spark's classes created once jobs run, so that later drivers start faster."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from pystate.runtime.job_folder.submission import Submission

TRAINING_COMMAND = ("-m", "pystate.ops.warm_start.class_data_training")

logger = logging.getLogger(__name__)

_AFTER_SECONDS = 60.0
"""How long after a driver's start: it should not have to share the processors with this."""


class ClassDataTrainer:
    """Starts the training once per Python interpreter of drivers, see `pystate.ops.warm_start.class_data_training`.

    Args:
        folder: The working folder.
        command: The interpreter's arguments that start the training.
        after_s: The delay after the first driver.
    """

    def __init__(self, folder: Path, command: Sequence[str] = TRAINING_COMMAND, after_s: float = _AFTER_SECONDS) -> None:
        self._folder = folder
        self._command = list(command)
        self._after_s = after_s
        self._known: set[str] = set()
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()

    def driver_started(self, submission: Submission, environment: Mapping[str, str]) -> None:
        """Called when a driver was started, with the environment variables of its job."""
        with self._lock:
            if submission.python in self._known or self._closed.is_set():
                return
            self._known.add(submission.python)
        arguments = (submission.python, dict(environment or os.environ))
        threading.Thread(target=self._train, args=arguments, name="class-data-training", daemon=True).start()

    def _train(self, python: str, environment: dict[str, str]) -> None:
        if self._closed.wait(self._after_s):
            return
        try:
            process = self._start(python, environment)
        except OSError as error:
            logger.warning("no archive of Spark's classes can be made: %s", error)
            return
        if process is None:
            return
        said = process.communicate()[1].decode(errors="replace").strip()
        with self._lock:
            del self._running[process.pid]
        if process.returncode and not self._closed.is_set():
            logger.warning("no archive of Spark's classes was made: exit code %d, %s", process.returncode, said[-1000:])

    def _start(self, python: str, environment: dict[str, str]) -> subprocess.Popen[bytes] | None:
        with self._lock:
            if self._closed.is_set():
                return None
            process = subprocess.Popen(  # noqa: S603 - the Python that runs the job
                [python, *self._command],
                cwd=self._folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            self._running[process.pid] = process
        return process

    def close(self) -> None:
        """End the running training, and start no more."""
        self._closed.set()
        with self._lock:
            for pid in self._running:
                with contextlib.suppress(OSError):
                    os.killpg(pid, signal.SIGKILL)
