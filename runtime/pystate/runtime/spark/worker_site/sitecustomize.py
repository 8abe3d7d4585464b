"""Connects a Spark Python worker to its JVM before it imports anything.

Spark allows a worker that reads a Python data source 10 s from its start to its connection, which isn't configurable; the
worker connects after importing PySpark. On a busy machine these imports take longer, and the query fails. Connecting alone
takes a tenth of that time. Workers forked by a daemon have 60 s, and nothing to import before.

Python runs this at the start of each interpreter that has the folder on its path. It then runs the next module of this name.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from typing import Any

_LENGTH = struct.Struct("!i")


def connect_early() -> None:
    """Connect, if this process is such a worker, and make PySpark use that connection instead of opening its own."""
    path, port = os.environ.get("PYTHON_WORKER_FACTORY_SOCK_PATH"), os.environ.get("PYTHON_WORKER_FACTORY_PORT")
    secret = os.environ.get("PYTHON_WORKER_FACTORY_SECRET")
    words = sys.orig_argv
    module = words[words.index("-m") + 1] if "-m" in words[:-1] else ""
    if not module.startswith("pyspark.") or module == "pyspark.daemon" or not (path or port):
        return
    made = _by_unix_socket(path) if path else _by_port(int(str(port)), secret)
    if made is None:
        return  # PySpark tries again, and reports the error
    from pyspark import util

    by_itself = util.local_connect_and_auth

    def local_connect_and_auth(conn_info: str | int | None, auth_secret: str | None) -> tuple[Any, ...]:
        util.local_connect_and_auth = by_itself
        here = path if path else int(str(port))
        return made if conn_info == here else by_itself(conn_info, auth_secret)

    util.local_connect_and_auth = local_connect_and_auth


def _by_unix_socket(path: str) -> tuple[Any, socket.socket] | None:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(path)
    except OSError:
        connection.close()
        return None
    return _file_of(connection), connection


def _by_port(port: int, secret: str | None) -> tuple[Any, socket.socket] | None:
    host = "::1" if os.environ.get("SPARK_PREFER_IPV6", "false").lower() == "true" else "127.0.0.1"
    try:
        connection = socket.create_connection((host, port))
    except OSError:
        return None
    file = _file_of(connection)
    proof = (secret or "").encode()
    file.write(_LENGTH.pack(len(proof)) + proof)
    file.flush()
    (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
    if file.read(length) != b"ok":
        connection.close()
        return None
    return file, connection


def _file_of(connection: socket.socket) -> Any:
    connection.settimeout(int(os.environ.get("SPARK_AUTH_SOCKET_TIMEOUT", "15")))
    return connection.makefile("rwb", int(os.environ.get("SPARK_BUFFER_SIZE", "65536")))


def run_next() -> None:
    """Run the next module of this name on the path, which this one hides."""
    import importlib.machinery
    import importlib.util

    here = os.path.dirname(os.path.abspath(__file__))
    path = [entry for entry in sys.path if os.path.abspath(entry) != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if __name__ == "sitecustomize":
    connect_early()
    run_next()
