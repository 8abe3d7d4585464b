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


@contextmanager
def running_mariadb(folder: Path) -> Iterator[str]:
    """Run one; the URL is what SQLAlchemy takes."""
    import pymysql

    data, socket, port = folder / "data", folder / "socket", free_port()
    as_root = ["--user=root"] if os.geteuid() == 0 else []
    common = ["--no-defaults", f"--datadir={data}", *as_root]
    make = [shutil.which("mariadb-install-db", path=_PATH) or "", *common, "--auth-root-authentication-method=normal"]
    done = subprocess.run([*make, "--skip-test-db"], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    own = [f"--socket={socket}", f"--port={port}", "--bind-address=127.0.0.1", "--innodb-buffer-pool-size=16M"]
    log_path = folder / "server.log"
    with log_path.open("wb") as log:
        server = shutil.which("mariadbd", path=_PATH) or ""
        process = subprocess.Popen([server, *common, *own, "--skip-name-resolve"], stdout=log, stderr=log, cwd=folder)
    try:
        deadline = time.monotonic() + LONGEST_S
        while True:
            assert process.poll() is None, log_path.read_text()
            assert time.monotonic() < deadline, log_path.read_text()
            try:
                with pymysql.connect(unix_socket=str(socket), user="root", autocommit=True) as connection:
                    cursor = connection.cursor()
                    cursor.execute("CREATE DATABASE pystate")
                    cursor.execute("CREATE USER pystate@127.0.0.1 IDENTIFIED BY 'secret'")
                    cursor.execute("GRANT ALL ON pystate.* TO pystate@127.0.0.1")
                break
            except pymysql.err.OperationalError:
                time.sleep(0.05)
        yield f"mysql://pystate:secret@127.0.0.1:{port}/pystate"
    finally:
        process.terminate()
        process.wait(LONGEST_S)
