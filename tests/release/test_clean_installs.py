"""The wheel in clean environments, as people bring it there: pip, pipx and `uv tool`; the quick start works in each of them.

Nothing is fetched and nothing is compiled: all wheels are those of `make release-tools`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import pystate
from release.build import build
from tests.ops.jobmanager.harness import REPOSITORY
from tests.waiting import wait_until

TOOLS = REPOSITORY / "build" / "release-tools" / "bin"
UV = REPOSITORY / "build" / "lock-venv" / "bin" / "uv"
WHEELHOUSE = REPOSITORY / "build" / "wheelhouse"
MISSING = [str(path.relative_to(REPOSITORY)) for path in (TOOLS / "pipx", UV, WHEELHOUSE / ".complete") if not path.exists()]
NO_COMPILER = dict.fromkeys(("CC", "CXX", "FC", "RUSTC", "CARGO"), "/bin/false")
Installer = Callable[[str, Path, dict[str, str]], Path]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(bool(MISSING), reason=f"{', '.join(MISSING)} is not here: make release-tools"),
]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    return build(REPOSITORY, tmp_path_factory.mktemp("dist"), 1_700_000_000)[1]


def run(*command: object, environment: dict[str, str], cwd: Path) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, env=environment, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def by_pip(wanted: str, folder: Path, environment: dict[str, str]) -> Path:
    run(sys.executable, "-m", "venv", folder / "venv", environment=environment, cwd=folder)
    offline = ("--no-index", "--find-links", WHEELHOUSE, "--only-binary", ":all:")
    run(folder / "venv" / "bin" / "pip", "install", *offline, wanted, environment=environment, cwd=folder)
    return folder / "venv" / "bin" / "pystate"


def by_pipx(wanted: str, folder: Path, environment: dict[str, str]) -> Path:
    places = {"PIPX_HOME": "pipx", "PIPX_BIN_DIR": "bin", "PIPX_MAN_DIR": "man"}
    environment |= {name: str(folder / place) for name, place in places.items()}
    # its other backend, pip, fetches a newer pip for itself
    words = ("--backend", "uv", "--python", sys.executable, f"--pip-args=--no-index --no-build --find-links {WHEELHOUSE}")
    with_uv = {**environment, "PATH": f"{UV.parent}:{environment['PATH']}"}
    run(TOOLS / "pipx", "install", *words, wanted, environment=with_uv, cwd=folder)
    return folder / "bin" / "pystate"


def by_uv_tool(wanted: str, folder: Path, environment: dict[str, str]) -> Path:
    environment |= {"UV_TOOL_DIR": str(folder / "tools"), "UV_TOOL_BIN_DIR": str(folder / "bin")}
    offline = ("--no-index", "--no-build", "--find-links", WHEELHOUSE, "--python", sys.executable)
    run(UV, "tool", "install", *offline, wanted, environment=environment, cwd=folder)
    return folder / "bin" / "pystate"


@pytest.mark.parametrize("install", [by_pip, by_pipx, by_uv_tool])
def test_the_quick_start_in_a_clean_environment(install: Installer, wheel: Path, tmp_path: Path) -> None:
    environment = {
        "HOME": str(tmp_path),
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "TMPDIR": os.environ.get("TMPDIR", "/tmp"),
        **NO_COMPILER,
    }
    command = install(f"{wheel}[java]", tmp_path, environment)

    def shell(*words: object) -> str:
        return run(command, *words, environment=environment, cwd=tmp_path)

    def has_printed(line: str) -> bool:
        return line in shell("logs", "counts")

    commit = zipfile.ZipFile(wheel).read("pystate/commit.txt").decode().strip()
    head, _, modified = commit.partition("-")
    named = f"{head[:12]}-{modified}" if modified else head[:12]
    assert shell("--version") == f"pystate {pystate.__version__} ({named})\n"
    project = Path(shell("new", "counts").strip())
    (project / "input" / "1.txt").write_text("alpha beta alpha\n")
    job = (project / "counts.py", project / "input")
    try:
        assert re.fullmatch(r"[0-9a-f]{32}\n", shell("run", "-d", *job))
        wait_until(lambda: has_printed("(alpha,2)"))
        savepoint = shell("stop", "counts").strip()
        assert "count-words" in shell("savepoints", "inspect", savepoint)
        (project / "input" / "2.txt").write_text("alpha\n")
        shell("run", "-d", "-p", "2", "-s", savepoint, *job)
        wait_until(lambda: has_printed("(alpha,3)"))
        shell("stop", "counts")
    finally:
        shell("cluster", "stop", "--cancel-jobs")
