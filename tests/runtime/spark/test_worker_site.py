"""A Python worker of Spark's connects before it imports anything: its JVM waits 10 s for that on any machine."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from pystate.runtime.spark import worker_site

# stands in for PySpark and says what had been imported when the connection was there
PYSPARK = {
    "pyspark/__init__.py": "",
    "pyspark/util.py": "def local_connect_and_auth(info, secret):\n    raise AssertionError('a second connection')\n",
    "pyspark/worker.py": """
import os, sys
from pyspark.util import local_connect_and_auth
assert sys.stdin.readline() == "connected\\n"
info = os.environ.get("PYTHON_WORKER_FACTORY_SOCK_PATH") or int(os.environ["PYTHON_WORKER_FACTORY_PORT"])
file, connection = local_connect_and_auth(info, os.environ.get("PYTHON_WORKER_FACTORY_SECRET"))
assert connection.gettimeout() == 600
file.write(b"work")
file.flush()
""",
}


@pytest.fixture
def worker(tmp_path: Path):
    """Start a worker with variables; what stands further down its path is there, too."""
    for name, text in PYSPARK.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "sitecustomize.py").write_text("import os\nos.environ['OF_THE_NEXT'] = 'ran'\nprint('next', flush=True)\n")
    started = []

    def start(module="pyspark.worker", **variables):
        environment = {
            "PYTHONPATH": f"{worker_site.FOLDER}{os.pathsep}{tmp_path}",
            "SPARK_AUTH_SOCKET_TIMEOUT": "600",
            **variables,
        }
        process = subprocess.Popen(
            [sys.executable, "-m", module], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("way", ["port", "path"])
def test_it_is_connected_before_pyspark_is_imported_and_works_over_that_connection(worker, tmp_path, way):
    listener = socket.socket(socket.AF_INET if way == "port" else socket.AF_UNIX)
    if way == "port":
        listener.bind(("127.0.0.1", 0))
        variables = {"PYTHON_WORKER_FACTORY_PORT": str(listener.getsockname()[1]), "PYTHON_WORKER_FACTORY_SECRET": "s3cret"}
    else:
        listener.bind(str(tmp_path / "s"))
        variables = {"PYTHON_WORKER_FACTORY_SOCK_PATH": str(tmp_path / "s")}
    with listener:
        listener.listen()
        process = worker(**variables)
        connection, _ = listener.accept()  # it waits to be told so before it does anything else
        with connection:
            if way == "port":
                assert connection.recv(10, socket.MSG_WAITALL) == struct.pack("!i", 6) + b"s3cret"
                connection.sendall(struct.pack("!i", 2) + b"ok")
            process.stdin.write("connected\n")
            process.stdin.flush()
            assert connection.recv(4, socket.MSG_WAITALL) == b"work"
    out, _ = process.communicate()
    assert (process.returncode, out) == (0, "next\n")


def test_who_is_no_such_worker_connects_to_nobody(worker, tmp_path):
    (tmp_path / "other.py").write_text("import sys\nassert 'pyspark' not in sys.modules\n")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        process = worker("other", PYTHON_WORKER_FACTORY_PORT=str(listener.getsockname()[1]))
        process.communicate()
        assert process.returncode == 0
        with pytest.raises(BlockingIOError):
            listener.accept()
