"""A job that a benchmark starts with the command line, in a home of its own, and ends with all that belongs to it."""

import json
import os
import subprocess
import sys

PYSTATE = [sys.executable, "-m", "pystate_cli"]


class RunningJob:
    """A job on a cluster of its own.

    Args:
        folder: For the cluster's home and the job's checkpoints.
        program: The job file.
        arguments: Its.
        parallelism: Of it.
        settings: Options of it.
    """

    def __init__(self, folder, program, arguments, parallelism, settings):
        self.home = folder / "home"
        self._environment = {**os.environ, "PYSTATE_HOME": str(self.home)}
        settings = {"execution.checkpointing.dir": str(folder / "checkpoints"), **settings}
        options = [f"-D{key}={value}" for key, value in settings.items()]
        self._command = ["run", "-d", "-p", str(parallelism), *options, str(program), *map(str, arguments)]
        self.job_id = ""

    def __enter__(self):
        self.job_id = self.call(*self._command).split()[-1]
        return self

    def __exit__(self, *_):
        for words in (["cancel", self.job_id], ["cluster", "stop"]):
            subprocess.run([*PYSTATE, *words], env=self._environment, capture_output=True)

    def call(self, *words):
        done = subprocess.run([*PYSTATE, *words], env=self._environment, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{words}: {done.stderr}")
        return done.stdout

    @property
    def ended(self):
        """Return what the list says of it once it is no more; "" until then."""
        return "" if self.job_id in self.call("list") else self.call("list", "-a")

    def completed_checkpoints(self):
        """Return those that are remembered, the newest first."""
        history = json.loads(self.call("checkpoints", self.job_id, "--json"))["history"]
        return [one for one in history if one["status"] == "COMPLETED"]
