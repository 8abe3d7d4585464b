"""What is attacked: a job manager, and one job with its driver and slots."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from pystate.common.files.home import PystateHome, read_json
from tests.faults.processes import children, command_of, descendants, is_gone, kill
from tests.ops.jobmanager.harness import FAKE_DRIVER, PYTHON_PATH, REPOSITORY
from tests.security.listening_sockets import ListeningSocket, listening_sockets_of
from tests.waiting import LONGEST_S, wait_until

NO_MASK = 0
"""What `umask` a careless user has: files are as open as those who make them ask for."""
_CLI = (sys.executable, "-m", "pystate_cli")
_TRACEBACK = "Traceback (most recent call last)"
_CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")
_COUNT_WORDS = REPOSITORY / "tests" / "e2e" / "commands" / "count_words.py"
_SERVE = REPOSITORY / "tests" / "security" / "serve.py"
_FAKE_SLOT = REPOSITORY / "tests" / "security" / "fake_slot.py"


class Installation:
    """A home with a job manager that listens as it does out of the box.

    Args:
        root: A folder that everybody may look into; the home is in it.
        fake: Drivers need no Spark.
        options: Options other than the defaults.
    """

    def __init__(self, root: Path, *, fake: bool, options: dict[str, str] | None = None) -> None:
        self.root = root
        self.root.mkdir(mode=0o755, exist_ok=True)
        self.root.chmod(0o755)
        self.home = PystateHome(root / "home")
        self.fake = fake
        self.options = options or {}
        (root / "conf").mkdir(exist_ok=True)
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PYSTATE")},
            "PYSTATE_HOME": str(self.home.root),
            "PYSTATE_CONF_DIR": str(root / "conf"),
            "PYTHONPATH": PYTHON_PATH,
            "COLUMNS": "200",
        }
        (root / "conf" / "flink-conf.toml").write_text("")
        self.job_file = root / "job.py"
        self.job_file.write_text("print('never run: the driver is a fake')\n")
        self._fakes: list[subprocess.Popen[bytes]] = []

    def start(self, *, mask: int = NO_MASK) -> None:
        """Start the job manager."""
        if not self.fake:
            properties = [word for key, value in self.options.items() for word in ("-D", f"{key}={value}")]
            self.pystate("cluster", "start", *properties, mask=mask)
            return
        before = os.umask(mask)
        try:
            self.home.root.mkdir(mode=0o700, exist_ok=True)  # as the command makes it for its log
            log = os.open(self.home.jobmanager_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            started = subprocess.Popen(
                [sys.executable, str(_SERVE), str(self.home.root), json.dumps(self.options), *FAKE_DRIVER],
                env=self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            os.close(log)
        finally:
            os.umask(before)
        self._fakes.append(started)
        wait_until(lambda: (read_json(self.home.jobmanager) or {}).get("pid") == started.pid or started.poll() is not None)
        if started.poll() is not None:
            raise RuntimeError(f"the job manager did not start: {self.home.jobmanager_log.read_text()[-2000:]}")

    def pystate(
        self, *words: object, mask: int = NO_MASK, check: bool = True, timeout: float = LONGEST_S
    ) -> tuple[int, str, str]:
        """Call a command; return its exit code, stdout and stderr."""
        done = subprocess.run(
            [*_CLI, *map(str, words)],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd=self.root,
            umask=mask,
        )
        if check and done.returncode:
            raise RuntimeError(f"pystate {' '.join(map(str, words))}: {done.stdout}\n{done.stderr}")
        return done.returncode, done.stdout.strip(), done.stderr

    @property
    def entry(self) -> dict[str, Any]:
        """What the job manager has left in the home."""
        return dict(read_json(self.home.jobmanager) or {})

    @property
    def port(self) -> int:
        """The job manager's port."""
        return int(self.entry["port"])

    @property
    def manager_pid(self) -> int:
        """The job manager's process."""
        return int(self.entry["pid"])

    def kill_manager(self) -> None:
        """End the job manager at once."""
        pid = self.manager_pid
        kill(pid)
        for started in self._fakes:
            if started.pid == pid:
                started.wait()
        wait_until(lambda: is_gone(pid))

    def request(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, *, token: bool = True
    ) -> tuple[int, Any]:
        """Send a request; return status code and body: parsed where it is JSON."""
        shown = {"Authorization": f"Bearer {self.home.token.read_text().strip()}"} if token else {}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LONGEST_S)
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        with contextlib.closing(connection):
            connection.request(method, path, data, {**shown, **(headers or {})})
            answer = connection.getresponse()
            content = answer.read()
        return answer.status, json.loads(content) if answer.headers["content-type"] == "application/json" else content

    def submission(self, *arguments: str, **changes: Any) -> dict[str, Any]:
        """Return what is submitted to run a fake."""
        return {
            "job_file": str(self.job_file),
            "arguments": list(arguments),
            "working_directory": str(self.root),
            "parallelism": 2,
            "savepoint_path": None,
            "allow_non_restored_state": False,
            "configuration": {},
            "attached": False,
            "python": sys.executable,
            "environment": self.environment,
            **changes,
        }

    def submit(self, *arguments: str, **changes: Any) -> str:
        """Submit a fake; return its job id."""
        status, answer = self.request("POST", "/pystate/jobs", self.submission(*arguments, **changes))
        if status != 202:
            raise RuntimeError(f"the submission was answered with {status}: {answer}")
        return str(answer["job_id"])

    def state(self, job_id: str) -> str:
        """Return where a job stands."""
        return str(self.request("GET", f"/jobs/{job_id}/status")[1].get("status"))

    def wait_for(self, job_id: str, *states: str, seconds: float = LONGEST_S) -> bool:
        """Wait until a job is in one of some states; return whether it came to be."""
        deadline = time.monotonic() + seconds
        while self.state(job_id) not in states:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def driver_pid(self, job_id: str) -> int:
        """Return the process of a job's driver."""
        return int(wait_until(lambda: read_json(self.home.job(job_id).driver))["pid"])

    def logs(self) -> list[Path]:
        """Return all log files."""
        return [
            path for path in [*self.home.root.glob("jobmanager.log*"), *self.home.root.glob("jobs/*/*")] if _is_log(path)
        ]

    def tracebacks(self) -> dict[Path, int]:
        """Return how many tracebacks each log has."""
        # a fake may say what it likes in its own log
        logs = [path for path in self.logs() if not (self.fake and path.name.startswith("job.log"))]
        return {path: len(tracebacks_of(path.read_text(errors="replace"))) for path in logs}

    def control_characters(self) -> int:
        """Return how many control characters the job manager's logs have: what requests say must not forge lines."""
        paths = self.home.root.glob("jobmanager.log*")
        return sum(len(_CONTROL.findall(path.read_bytes())) for path in paths)

    def close(self) -> None:
        """End the job manager and all drivers of the home."""
        drivers = [read_json(path)["pid"] for path in self.home.root.glob("jobs/*/driver.json")]
        below = [pid for driver in drivers for pid in descendants(driver)]
        with contextlib.suppress(KeyError):
            self.kill_manager()
        for pid in [*drivers, *below]:
            if self._is_ours(pid):
                kill(pid, signal.SIGKILL)
        for started in self._fakes:
            if started.poll() is None:
                started.kill()
            started.wait()

    def leftovers(self) -> list[str]:
        """Return the processes that are of this home, by what they are."""
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) != os.getpid() and self._is_ours(int(name)) and not is_gone(int(name)):
                found.append(f"{name} {command_of(int(name))[:80]}")
        return found

    def _is_ours(self, pid: int) -> bool:
        with contextlib.suppress(OSError):
            return str(self.home.root).encode() in Path(f"/proc/{pid}/environ").read_bytes()
        return False


class Target(Installation):
    """An installation with one job that must run on, whatever is done to it.

    Attributes:
        job_id: The job.
        word: A word in the job's state that nobody else may see.
        password: A secret among the job's options.
    """

    def __init__(self, root: Path, *, fake: bool) -> None:
        super().__init__(root, fake=fake)
        self.word = f"word{secrets.token_hex(12)}"
        self.password = f"password{secrets.token_hex(12)}"
        self.job_id = ""
        self._fed = 1
        self._slot: subprocess.Popen[bytes] | None = None

    def start(self, *, mask: int = NO_MASK) -> None:
        """Start job manager and job."""
        super().start(mask=mask)
        if self.job_id:
            return
        options = {"spark.authenticate.secret": self.password, "spark.hadoop.fs.s3a.secret.key": self.password}
        self.environment["AWS_SECRET_ACCESS_KEY"] = self.password
        if self.fake:
            savepoints = {"execution.checkpointing.savepoint-dir": str(self.home.savepoints)}
            restarting = ("--restart", "100", "50")
            self.job_id = self.submit(*restarting, "--write-savepoint", configuration={**options, **savepoints})
            self._start_slot(mask)
        else:
            words = self.root / "words"
            words.mkdir(mode=0o700)
            (words / "1.txt").write_text(f"{self.word} hello world\n".replace(" ", "\n"))
            properties = [word for key, value in options.items() for word in ("-D", f"{key}={value}")]
            command = ("run", "-d", "-p", "2", *properties, _COUNT_WORDS, words, "500")
            self.job_id = self.pystate(*command, mask=mask)[1]
        if not self.wait_for(self.job_id, "RUNNING", seconds=120):
            raise RuntimeError(f"the job does not run: {self.home.job(self.job_id).log.read_text()[-3000:]}")
        if not self.fake:
            wait_until(lambda: self.word.encode() in self.home.job(self.job_id).log.read_bytes())

    def _start_slot(self, mask: int) -> None:
        folder = self.root / "slot"
        folder.mkdir(mode=0o700)
        secret = self.home.job(self.job_id).secret.read_text()
        with (folder / "slot.log").open("wb") as log:
            command = [sys.executable, str(_FAKE_SLOT), str(folder)]
            environment = {**self.environment, "SLOT_SECRET": secret}
            self._slot = subprocess.Popen(command, env=environment, stdout=log, stderr=log, umask=mask)
        slot = self._slot
        wait_until(lambda: (folder / "ready").exists() or slot.poll() is not None)

    def pids(self) -> dict[str, int]:
        """Return the processes by what they are."""
        driver = self.driver_pid(self.job_id)
        found = {"job manager": self.manager_pid, "driver": driver}
        for number, pid in enumerate(self._slot_pids(driver)):
            found[f"slot {number}"] = pid
        return found

    def _slot_pids(self, driver: int) -> list[int]:
        if self._slot is not None:
            return [self._slot.pid]
        workers = [pid for pid in descendants(driver) if not children(pid) and "java" not in command_of(pid).split(" ")[0]]
        return sorted(pid for pid in workers if listening_sockets_of("", pid))

    def listeners(self) -> list[ListeningSocket]:
        """Return the sockets of driver and slots that ask for a proof."""
        return [
            listener
            for name, pid in self.pids().items()
            if name != "job manager"
            for listener in listening_sockets_of(name, pid)
        ]

    def next_checkpoint(self, seconds: float = LONGEST_S) -> tuple[str, float]:
        """Trigger a checkpoint; return how it ended, and how long that took in seconds."""
        began = time.monotonic()
        status, answer = self.request("POST", f"/jobs/{self.job_id}/checkpoints", {})
        if status != 202:
            return f"{status} {answer}", time.monotonic() - began
        path = f"/jobs/{self.job_id}/checkpoints/{answer['request-id']}"
        while time.monotonic() < began + seconds:
            answer = self.request("GET", path)[1]
            if "status" not in answer:
                return str(answer), time.monotonic() - began
            if answer["status"]["id"] == "COMPLETED":
                failed = answer["operation"].get("failureCause")
                return "COMPLETED" if failed is None else str(failed), time.monotonic() - began
            time.sleep(0.05)
        return "IN_PROGRESS", time.monotonic() - began

    def counts_on(self, seconds: float = 30) -> bool:
        """Give the job one word more; return whether it counts it, once. Fakes count nothing."""
        if self.fake:
            return True
        self._fed += 1
        part = self.root / "part"
        part.write_text("hello\n")
        part.rename(self.root / "words" / f"{self._fed}.txt")
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if f"('hello', {self._fed})".encode() in self.home.job(self.job_id).log.read_bytes():
                return True
            time.sleep(0.1)
        return False

    def logs(self) -> list[Path]:
        """Return all log files."""
        return [*super().logs(), *self.root.glob("slot/slot.log")]

    def close(self) -> None:
        """End all of it."""
        super().close()
        if self._slot is not None:
            self._slot.kill()
            self._slot.wait()


def tracebacks_of(text: str) -> list[str]:
    """Return the tracebacks in a log, but for those that Spark's daemon writes of each idle worker that it ends."""
    found = []
    for part in text.split(_TRACEBACK)[1:]:
        lines = part.splitlines()[1:]
        frames = [line for line in lines if line.startswith("  ")] or [""]
        end = next((line for line in lines if line and not line.startswith(" ")), "")
        if not (end == "EOFError" and "pyspark/daemon.py" in frames[0]):
            found.append("\n".join(lines[:80]))
    return found


def _is_log(path: Path) -> bool:
    return path.is_file() and path.name.split(".")[0] in ("jobmanager", "job", "stdout") and path.suffix != ".json"
