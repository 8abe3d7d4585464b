"""A job manager of its own for a test, with drivers that need no Spark."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.file_system_settings import settings_environment
from pystate.common.files.home import PystateHome, read_json
from pystate.ops.jobmanager.drivers.driver_process import DriverLauncher
from pystate.ops.jobmanager.server import job_manager
from tests import forks
from tests.forks import ForkedPython
from tests.waiting import LONGEST_S
from tests.waiting import wait_until as eventually

WITHOUT_TRAINING = {"pystate.spark.class-data-archive": "false"}
"""Else a job manager that serves tests for a minute starts a Spark of its own: the more likely, the busier the machine."""
REPOSITORY = Path(__file__).parents[3]
FAKE_DRIVER = (str(forks.FAKE_DRIVER),)
PYTHON_PATH = os.pathsep.join((str(REPOSITORY / "runtime"), str(REPOSITORY)))
_SERVE = """
import json, logging, sys
from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.file_system_settings import settings_environment
from pystate.common.files.home import PystateHome
from pystate.ops.jobmanager.drivers.driver_process import DriverLauncher
from pystate.ops.jobmanager.server import job_manager
from pystate.ops.jobmanager.server import serve
logging.basicConfig(level=logging.INFO)
home = PystateHome(sys.argv[1])
configuration = Configuration(json.loads(sys.argv[3]))
serve(home, "127.0.0.1", int(sys.argv[2]), DriverLauncher(home, sys.argv[4:]), configuration)
"""


class Manager:
    """A home with a job manager in it.

    Args:
        root: The home.

    Attributes:
        python_path: Where job managers and drivers find pystate, and the tests.
    """

    def __init__(self, root: Path) -> None:
        self.python_path = PYTHON_PATH
        self.home = PystateHome(root)
        self.job_file = root.parent / "job.py"
        self.job_file.write_text("print('never run: the driver is a fake')\n")

    def kill_drivers(self) -> None:
        """End every driver of the home."""
        for job_id, driver in DriverLauncher(self.home).find_running().items():
            if (self.home.jobs / job_id).exists():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(driver.pid, signal.SIGKILL)

    @property
    def port(self) -> int:
        return int(read_json(self.home.jobmanager)["port"])

    def request(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, *, token: bool = True
    ) -> tuple[int, Any]:
        """Return status code and body: parsed where it is JSON."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method)
        if token:
            request.add_header("Authorization", f"Bearer {self.home.token.read_text().strip()}")
        for name, value in (headers or {}).items():
            request.add_header(name, value)
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(request, data, timeout=LONGEST_S) as answer:  # noqa: S310 - always http
                status, content, kind = answer.status, answer.read(), answer.headers["content-type"]
        except urllib.error.HTTPError as error:
            status, content, kind = error.code, error.read(), error.headers["content-type"]
        return status, json.loads(content) if kind == "application/json" else content

    def submission(self, *arguments: str, **changes: Any) -> dict[str, Any]:
        return {
            "job_file": str(self.job_file),
            "arguments": list(arguments),
            "working_directory": str(self.job_file.parent),
            "parallelism": 2,
            "savepoint_path": None,
            "allow_non_restored_state": False,
            "configuration": {},
            "attached": False,
            "python": sys.executable,
            "environment": {**os.environ, "PYTHONPATH": self.python_path},
            **changes,
        }

    def submit(self, *arguments: str, **changes: Any) -> str:
        status, answer = self.request("POST", "/pystate/jobs", self.submission(*arguments, **changes))
        assert status == 202, answer
        return str(answer["job_id"])

    def state(self, job_id: str) -> str:
        return str(self.request("GET", f"/jobs/{job_id}/status")[1]["status"])

    def wait_for(self, job_id: str, state: str) -> None:
        eventually(lambda: self.state(job_id) == state)

    def operation(self, job_id: str, trigger_id: str, kind: str = "savepoints") -> dict[str, Any]:
        """Return the operation's result, waiting for it."""

        def completed() -> Any:
            answer = self.request("GET", f"/jobs/{job_id}/{kind}/{trigger_id}")[1]
            return answer if answer["status"]["id"] == "COMPLETED" else None

        return dict(eventually(completed)["operation"])


class ManagerThread(Manager):
    """A job manager in a thread of the test's process."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._stack = contextlib.ExitStack()

    def start(self, configuration: Configuration | None = None, port: int = 0) -> ManagerThread:
        launcher = DriverLauncher(self.home, FAKE_DRIVER)
        launcher.popen = forks.start_driver
        configuration = Configuration({**WITHOUT_TRAINING, **(configuration.to_dict() if configuration else {})})
        run = self._stack.enter_context(job_manager(self.home, "127.0.0.1", port, launcher, configuration))
        thread = threading.Thread(target=run.server.run, kwargs={"sockets": [run.listener]})
        thread.start()

        def end() -> None:
            run.server.should_exit = True
            thread.join(LONGEST_S)

        self._stack.callback(end)
        return self

    def stop(self) -> None:
        self._stack.close()
        self.kill_drivers()


class ManagerProcess(Manager):
    """A job manager in a process of its own, which can be killed.

    Attributes:
        popen: What starts it: a fork, or `subprocess.Popen` where it must import anew.
        serve: The Python that is the process.
        variables: More of its environment.
    """

    popen: Any = ForkedPython
    serve = _SERVE

    def __init__(self, root: Path, settings: dict[str, str] | None = None, driver: tuple[str, ...] = FAKE_DRIVER) -> None:
        super().__init__(root)
        self.driver = driver
        self.settings = {**WITHOUT_TRAINING, **(settings or {})}
        self.variables: dict[str, str] = {}
        self.process: Any = None

    def start(self, port: int = 0) -> ManagerProcess:
        self.home.root.mkdir(exist_ok=True)
        with self.home.jobmanager_log.open("ab") as log:
            self.process = self.popen(
                [sys.executable, "-c", self.serve, str(self.home.root), str(port), json.dumps(self.settings), *self.driver],
                env={**os.environ, **settings_environment(), "PYTHONPATH": self.python_path, **self.variables},
                stdout=log.fileno(),
                stderr=log.fileno(),
            )
        eventually(lambda: (read_json(self.home.jobmanager) or {}).get("pid") == self.process.pid)
        return self

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(LONGEST_S)
        self.kill_drivers()
