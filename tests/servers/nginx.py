"""nginx on loopback, where it is installed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import LONGEST_S

_FRAME = """\
daemon off;
{user}
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{configuration}
}}
"""
_KEEP_USER = "user root;" if os.geteuid() == 0 else ""  # its workers write to the test's own folders
_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])


def missing() -> str | None:
    """Say why there is no nginx here; None where there is one."""
    if shutil.which("nginx", path=_PATH) is not None:
        return None
    return "there is no nginx here: on Debian and Ubuntu, apt-get install nginx"


@contextmanager
def running_nginx(folder: Path, configuration: str, port: int) -> Iterator[None]:
    """Run it with what stands inside of `http {}`, until it listens on a port of 127.0.0.1."""
    program = shutil.which("nginx", path=_PATH)
    assert program is not None
    settings, log = folder / "nginx.conf", folder / "error.log"
    settings.write_text(_FRAME.format(folder=folder, user=_KEEP_USER, configuration=configuration))
    process = subprocess.Popen([program, "-p", str(folder), "-c", str(settings), "-e", str(log)])
    try:
        deadline = time.monotonic() + LONGEST_S
        while not _listens(port):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
        yield
    finally:
        process.terminate()
        process.wait(LONGEST_S)


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on at this moment."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
