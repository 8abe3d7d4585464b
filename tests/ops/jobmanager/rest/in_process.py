"""The REST application in the test's own process, with fake drivers."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from pystate.common.files.home import PystateHome
from pystate.ops.jobmanager.dispatcher import Dispatcher
from pystate.ops.jobmanager.drivers.driver_process import DriverLauncher
from pystate.ops.jobmanager.web.rest_security import RestSecurity
from pystate.ops.jobmanager.web_application import create_app
from pystate.runtime.job_folder.submission import Submission
from tests.forks import start_driver
from tests.ops.jobmanager.harness import FAKE_DRIVER, PYTHON_PATH, eventually

HOME_TOKEN = "the-token-of-the-home"
INSTANCE = "5" * 32


class InProcess:
    """An application over a home.

    Args:
        root: The home.
        security: What requests must prove.
        options: Further arguments of `create_app`.
    """

    def __init__(self, root: Path, security: RestSecurity | None = None, **options: Any) -> None:
        self.home = PystateHome(root)
        self.home.jobs.mkdir(parents=True)
        self.job_file = root.parent / "job.py"
        self.job_file.write_text("print('never run: the driver is a fake')\n")
        self._launcher = DriverLauncher(self.home, FAKE_DRIVER)
        self._launcher.popen = start_driver
        self.dispatcher = Dispatcher(self.home, self._launcher)
        chosen = security or RestSecurity(HOME_TOKEN)
        self.app = create_app(self.dispatcher, address="127.0.0.1", security=chosen, instance=INSTANCE, **options)
        self.client = TestClient(self.app, base_url="http://127.0.0.1", raise_server_exceptions=False)

    def submit(self, *arguments: str, state: str | None = "RUNNING", **changes: Any) -> str:
        """Start a fake job; return its id once it is in a state."""
        fields: dict[str, Any] = {
            "job_file": str(self.job_file),
            "arguments": list(arguments),
            "working_directory": str(self.job_file.parent),
            "parallelism": 2,
            "configuration": {},
            "python": sys.executable,
            **changes,
        }
        job_id = self.dispatcher.submit(Submission.from_json(fields), {**os.environ, "PYTHONPATH": PYTHON_PATH})
        if state is not None:
            eventually(lambda: self.dispatcher.job(job_id).state().value == state)
        return job_id

    def get(self, path: str, token: str | None = HOME_TOKEN) -> Any:
        """Return the JSON at a path."""
        answer = self.client.get(path, headers={} if token is None else {"Authorization": f"Bearer {token}"})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def close(self) -> None:
        """End every driver of the home."""
        self.dispatcher.close()
        for job_id, driver in self._launcher.find_running().items():
            if (self.home.jobs / job_id).exists():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(driver.pid, signal.SIGKILL)
