"""nginx before job managers, with the configuration that docs/security.md shows."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.ops.jobmanager.harness import PYTHON_PATH, REPOSITORY, Manager, ManagerProcess, eventually
from tests.ops.jobmanager.high_availability.conftest import standby_options
from tests.servers import nginx
from tests.servers.certificate import certificate
from tests.waiting import LONGEST_S

__all__ = ["certificate"]

TOKEN = "the-token-of-the-operators"


def documented_configuration(addresses: list[str], port: int, certificate: tuple[str, str]) -> str:
    """Return the page's configuration for addresses, port and certificate of the test."""
    page = (REPOSITORY / "docs" / "security.md").read_text("utf-8")
    (block,) = re.findall(r"```nginx\n(.*?)```", page, re.DOTALL)
    text, count = re.subn(
        r"(    server \S+;\n)+", "".join(f"    server {address};\n" for address in addresses), block, count=1
    )
    assert count == 1
    pem, key = certificate
    for shown, real in {
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "/etc/nginx/pystate.pem": pem,
        "/etc/nginx/pystate.key": key,
    }.items():
        assert text.count(shown) == 1
        text = text.replace(shown, real)
    return text


class Proxy:
    """Those who ask nginx.

    Args:
        port: Its port.
        folder: Has the settings of a machine that calls it.
        root: The root of its certificate.
    """

    def __init__(self, port: int, folder: Path, root: str) -> None:
        self.port = port
        self._folder = folder
        self._tls = ssl.create_default_context(cafile=root)

    def ask(
        self, method: str, path: str, body: Any = None, token: str | None = TOKEN, headers: dict[str, str] | None = None
    ) -> tuple[int, Any, http.client.HTTPMessage]:
        """Return status, body and headers of an answer; redirections are not followed."""
        shown = {} if token is None else {"Authorization": f"Bearer {token}"}
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=LONGEST_S, context=self._tls)
        data = None if body is None else json.dumps(body).encode()
        connection.request(method, path, body=data, headers={**shown, **(headers or {})})
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, json.loads(content) if content.startswith(b"{") else content, answer.headers

    def pystate(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command on a machine that knows the proxy's address alone."""
        environment = {
            **os.environ,
            "PYTHONPATH": PYTHON_PATH,
            "PYSTATE_HOME": str(self._folder / "caller"),
            "PYSTATE_CONF_DIR": str(self._folder),
        }
        command = [sys.executable, "-m", "pystate_cli", *words, "-m", f"127.0.0.1:{self.port}"]
        return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=LONGEST_S)


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "rest-token"
    path.touch(mode=0o600)
    path.write_text(f"{TOKEN}\n")
    return path


@pytest.fixture
def before(
    tmp_path: Path, token_file: Path, certificate: tuple[str, str]
) -> Iterator[Callable[[list[ManagerProcess]], Proxy]]:
    """Start nginx before job managers."""
    reason = nginx.missing()
    if reason is not None:
        pytest.skip(reason)
    settings = {
        "security.ssl.rest.enabled": "true",
        "pystate.security.ssl.rest.ca": certificate[0],
        "pystate.rest.token-file": str(token_file),
    }
    folder = tmp_path / "nginx"
    folder.mkdir()
    (folder / "flink-conf.toml").write_text("".join(f'"{key}" = "{value}"\n' for key, value in settings.items()))
    with contextlib.ExitStack() as stack:

        def start(managers: list[ManagerProcess]) -> Proxy:
            port = nginx.free_port()
            addresses = [f"127.0.0.1:{manager.port}" for manager in managers]
            configuration = documented_configuration(addresses, port, certificate)
            stack.enter_context(nginx.running_nginx(folder, configuration, port))
            return Proxy(port, folder, certificate[0])

        yield start


@pytest.fixture
def job_manager(tmp_path: Path, token_file: Path) -> Iterator[Callable[..., ManagerProcess]]:
    """Start job managers with homes of their own."""
    started: list[ManagerProcess] = []

    def start(name: str, **options: str) -> ManagerProcess:
        (tmp_path / name).mkdir()
        manager = ManagerProcess(tmp_path / name / "home", {"pystate.rest.token-file": str(token_file), **options})
        started.append(manager)
        return manager.start()

    yield start
    for manager in started:
        manager.stop()


def submitted(proxy: Proxy, manager: Manager) -> str:
    """Submit a job through the proxy; return its id."""
    status, answer, _ = proxy.ask("POST", "/pystate/jobs", manager.submission())
    assert status == 202, answer
    return str(answer["job_id"])


def state(proxy: Proxy, job_id: str) -> str:
    return str(proxy.ask("GET", f"/jobs/{job_id}/status")[1]["status"])


def test_a_job_manager_is_served_through_nginx(job_manager: Any, before: Any) -> None:
    manager = job_manager("one")
    proxy = before([manager])

    job_id = submitted(proxy, manager)
    eventually(lambda: state(proxy, job_id) == "RUNNING")

    listed = proxy.pystate("list")
    assert (listed.returncode, job_id in listed.stdout) == (0, True), listed.stderr
    cancelled = proxy.pystate("cancel", job_id)
    assert cancelled.returncode == 0, cancelled.stderr
    assert state(proxy, job_id) == "CANCELED"
    status, answer, headers = proxy.ask("GET", "/config")
    assert (status, "pystate-version" in answer, bool(headers["pystate-instance"])) == (200, True, True)


def test_who_has_no_token_is_refused_after_nginx_too(job_manager: Any, before: Any) -> None:
    proxy = before([job_manager("one")])

    for token in (None, "another-token-than-ours"):
        assert proxy.ask("GET", "/jobs", token=token)[0] == 401
    status, answer, _ = proxy.ask("GET", "/jobs", headers={"Origin": f"https://127.0.0.1:{proxy.port}"})
    assert (status, "are refused" in answer["errors"][0]) == (403, True)


def test_nginx_lets_through_what_the_job_manager_reads(job_manager: Any, before: Any) -> None:
    proxy = before([job_manager("one")])

    for megabytes, comes_through in ((3, True), (5, False)):
        status, answer, headers = proxy.ask("POST", "/pystate/jobs", {"job_file": "x" * (megabytes << 20)})
        assert ("pystate-instance" in headers, status) == (comes_through, 400 if comes_through else 413), answer


def test_requests_go_to_the_job_manager_that_leads(job_manager: Any, before: Any, tmp_path: Path) -> None:
    options = standby_options(str(tmp_path / "ha"))
    first = job_manager("first", **options)
    eventually(lambda: (tmp_path / "ha").is_dir())
    second = job_manager("second", **options)
    proxy = before([first, second])
    eventually(lambda: proxy.ask("GET", "/jobs")[0] == 200)

    seen = [proxy.ask("GET", path) for path in ("/config", "/jobs") * 4]
    assert [status for status, _, _ in seen] == [200] * 8
    assert not any("pystate-leader" in answer for _, answer, _ in seen)
    (instance,) = {headers["pystate-instance"] for _, _, headers in seen}
    job_ids = {submitted(proxy, first) for _ in range(4)}
    assert job_ids == {job["id"] for job in proxy.ask("GET", "/jobs")[1]["jobs"]}
    listed = proxy.pystate("list")
    assert (listed.returncode, listed.stderr) == (0, "")

    leader, other = (first, second) if _instance(first) == instance else (second, first)
    leader.kill()
    eventually(lambda: proxy.ask("GET", "/jobs")[0] == 200)
    answer = proxy.ask("GET", "/jobs")
    assert (answer[2]["pystate-instance"], {job["id"] for job in answer[1]["jobs"]}) == (_instance(other), job_ids)
    leader.kill_drivers()


def _instance(manager: ManagerProcess) -> str:
    return str(json.loads(manager.home.jobmanager.read_text())["instance"])
