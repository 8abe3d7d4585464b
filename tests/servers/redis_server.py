"""A Redis on loopback, where it is installed, in a folder of its own: what it has acknowledged is on disk."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.servers.nginx import free_port
from tests.waiting import LONGEST_S, wait_until

PASSWORD = "s3cret-of-tests"
_PROGRAMS = ("redis-server", "valkey-server")


def missing() -> str | None:
    """Say why there is no Redis here; None where there is one."""
    if any(map(shutil.which, _PROGRAMS)):
        return None
    return "there is no Redis here: on Debian and Ubuntu, apt-get install redis-server"


class RedisServer:
    """A server; `url` has its password."""

    def __init__(self, folder: Path, tls: tuple[str, str] | None = None) -> None:
        self.folder = folder
        self.port = free_port()
        self._tls = tls
        self.url = f"{'rediss' if tls else 'redis'}://:{PASSWORD}@127.0.0.1:{self.port}/0"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Run it, until it answers."""
        program = next(filter(None, map(shutil.which, _PROGRAMS)))
        settings = {"dir": self.folder, "bind": "127.0.0.1", "requirepass": PASSWORD, "save": ""}
        settings |= {"appendonly": "yes", "appendfsync": "always", "enable-debug-command": "local"}
        if self._tls is None:
            settings["port"] = str(self.port)
        else:
            certificate, key = self._tls
            settings |= {"port": "0", "tls-port": str(self.port), "tls-cert-file": certificate, "tls-key-file": key}
            settings |= {"tls-ca-cert-file": certificate, "tls-auth-clients": "no"}
        options = [word for name, value in settings.items() for word in (f"--{name}", str(value))]
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen([program, *options], stdout=log, stderr=log, cwd=self.folder)
        wait_until(self._answers)

    def client(self):
        """A reader from outside."""
        import redis

        options = {} if self._tls is None else {"ssl_ca_certs": self._tls[0]}
        return redis.Redis.from_url(self.url, decode_responses=True, **options)

    def kill(self) -> None:
        """Kill it, as a machine that loses power; what was acknowledged is on disk."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(LONGEST_S)

    def pause(self) -> None:
        """Have it stand still; its connections stay open."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """End the pause."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """End it."""
        if self._process is not None and self._process.poll() is None:
            self.go_on()
            self.kill()

    def _answers(self) -> bool:
        import redis

        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "server.log").read_text()
        try:
            with self.client() as client:
                return bool(client.ping())
        except redis.ConnectionError:
            return False


@contextmanager
def running_redis(folder: Path, tls: tuple[str, str] | None = None) -> Iterator[RedisServer]:
    """Run one."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    server = RedisServer(folder, tls)
    server.start()
    try:
        yield server
    finally:
        server.stop()
