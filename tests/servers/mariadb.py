"""A MariaDB on loopback, where it is installed, in a folder of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.nginx import free_port
from tests.waiting import LONGEST_S

_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])


def missing() -> str | None:
    """Say why there is no MariaDB here; None where there is one."""
    if all(shutil.which(name, path=_PATH) for name in ("mariadbd", "mariadb-install-db")):
        return None
    return "there is no MariaDB here: on Debian and Ubuntu, apt-get install mariadb-server"


class MariaDb:
    """A server; `url` is what SQLAlchemy takes.

    Args:
        folder: Its own.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._socket, port = folder, folder / "socket", free_port()
        as_root = ["--user=root"] if os.geteuid() == 0 else []
        self._common = ["--no-defaults", f"--datadir={folder / 'data'}", *as_root]
        own = [f"--socket={self._socket}", f"--port={port}", "--bind-address=127.0.0.1", "--innodb-buffer-pool-size=16M"]
        self._command = [_program("mariadbd"), *self._common, *own, "--skip-name-resolve"]
        self._log = folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"mysql://pystate:secret@127.0.0.1:{port}/pystate"

    def initialize(self) -> None:
        """Make the database's files, the database, and its user."""
        make = [_program("mariadb-install-db"), *self._common, "--auth-root-authentication-method=normal", "--skip-test-db"]
        done = subprocess.run(make, capture_output=True, text=True, cwd=self._folder)
        assert done.returncode == 0, done.stderr
        self.start()
        self._ask(
            "CREATE DATABASE pystate",
            "CREATE USER pystate@127.0.0.1 IDENTIFIED BY 'secret'",
            "GRANT ALL ON pystate.* TO pystate@127.0.0.1",
        )

    def start(self) -> None:
        """Run it, until it answers."""
        import pymysql

        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, cwd=self._folder)
        deadline = time.monotonic() + LONGEST_S
        while True:
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, self._log.read_text()
            try:
                return self._ask()
            except pymysql.err.OperationalError:
                time.sleep(0.05)

    def kill(self) -> None:
        """Kill it, as a machine that loses power."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(LONGEST_S)

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(LONGEST_S)

    def _ask(self, *statements: str) -> None:
        import pymysql

        with pymysql.connect(unix_socket=str(self._socket), user="root", autocommit=True) as connection:
            for statement in statements:
                connection.cursor().execute(statement)


def _program(name: str) -> str:
    return shutil.which(name, path=_PATH) or ""


@contextmanager
def running_mariadb(folder: Path) -> Iterator[MariaDb]:
    """Run one."""
    server = MariaDb(folder)
    try:
        server.initialize()
        yield server
    finally:
        server.stop()
