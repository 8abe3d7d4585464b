"""A PostgreSQL on loopback, where it is installed, in a folder of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.processes import children, kill
from tests.servers.nginx import free_port
from tests.waiting import LONGEST_S

USER = "pystate"
PASSWORD = "s3cret/of:tests"
_URL_PASSWORD = "s3cret%2Fof%3Atests"
_SETTINGS = """\
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 50
shared_buffers = 16MB
logging_collector = off
deadlock_timeout = 100ms
"""


def _programs() -> Path | None:
    """Return the folder of its programs: Debian has those of the server outside of the PATH."""
    folders = [Path(found).parent for found in [shutil.which("initdb")] if found]
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "initdb").exists() and (folder / "postgres").exists()), None)


def missing() -> str | None:
    """Say why there is no PostgreSQL here; None where there is one."""
    if _programs() is None:
        return "there is no PostgreSQL here: on Debian and Ubuntu, apt-get install postgresql"
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        return "PostgreSQL doesn't run as root, and there is no setpriv here: apt-get install util-linux"
    return None


class Postgres:
    """A server; `url` is what SQLAlchemy takes.

    Args:
        folder: Its own.
        settings: Further ones, by name.
    """

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self._settings = settings
        self.port = free_port()
        self.url = f"postgresql://{USER}:{_URL_PASSWORD}@127.0.0.1:{self.port}/postgres"
        self._process: subprocess.Popen[bytes] | None = None
        self._log = folder / "server.log"

    def initialize(self) -> None:
        """Make the database's files."""
        password = self.folder / "password"
        password.write_text(PASSWORD)
        if os.geteuid() == 0:
            # as nobody it has to get through the folders above
            for place in (self.folder, password):
                shutil.chown(place, "nobody")
            for place in self.folder.parents:
                if place.stat().st_uid == os.geteuid() and len(place.parts) > 2:
                    place.chmod(place.stat().st_mode | 0o711)
        options = ["-A", "scram-sha-256", "-U", USER, "--pwfile", str(password), "--no-sync", "-E", "UTF8", "--locale=C"]
        command = [*self._command("initdb"), "-D", str(self.folder / "data"), *options]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder)
        assert done.returncode == 0, done.stderr
        with (self.folder / "data" / "postgresql.conf").open("a") as settings:
            settings.write(_SETTINGS + "".join(f"{name} = '{value}'\n" for name, value in self._settings.items()))

    def start(self) -> None:
        """Run it, until it answers."""
        deadline = time.monotonic() + LONGEST_S
        while not self._answers():
            assert time.monotonic() < deadline, self._log.read_text()
            if self._process is None:
                command = [*self._command("postgres"), "-D", str(self.folder / "data"), "-p", str(self.port)]
                with self._log.open("wb") as log:
                    self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)
            if self._process.poll() is not None:
                # sessions of the one that was killed may take a moment to be gone
                assert "pre-existing shared memory block" in self._log.read_text(), self._log.read_text()
                self._process = None
            time.sleep(0.05)

    def kill(self) -> None:
        """Kill it and all its sessions, as a machine that loses power."""
        assert self._process is not None
        sessions = children(self._process.pid)
        self._process.kill()
        self._process.wait(LONGEST_S)
        for pid in sessions:
            kill(pid)
        self._process = None

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)  # "fast": sessions are ended
            try:
                self._process.wait(LONGEST_S)
            except subprocess.TimeoutExpired:
                self.kill()

    def _command(self, program: str) -> list[str]:
        programs = _programs()
        assert programs is not None
        as_nobody = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--"]
        return [*(as_nobody if os.geteuid() == 0 else []), str(programs / program)]

    def _answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True


@contextmanager
def running_postgres(folder: Path, **settings: str) -> Iterator[Postgres]:
    """Run one, with further settings."""
    server = Postgres(folder, **settings)
    server.initialize()
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """One server for all tests of a run; each test takes tables of its own."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    with running_postgres(tmp_path_factory.mktemp("postgres")) as server:
        yield server
