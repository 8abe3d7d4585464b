"""Checks of this machine: Python, packages, Java, Spark, cores, disks, clock."""

from __future__ import annotations

import importlib.metadata
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from pystate.common.distribution import FOREIGN_NAME, NAME
from pystate.common.errors import ConfigurationError, JavaNotFoundError
from pystate.common.processes.machine_load import core_count
from pystate.common.text.figures import format_size
from pystate.connectors.finding import Finding, fail, ok, warn

if TYPE_CHECKING:
    from pystate.common.configuration.configuration import Configuration
    from pystate.common.files.home import PystateHome
    from pystate.runtime.spark.applications.required_cores import RequiredCores

PACKAGES = (
    "typer",
    "rich",
    "pyspark",
    "rocksdict",
    "msgpack",
    "fsspec",
    "tomli",
    "pyarrow",
    "starlette",
    "uvicorn",
    "anyio",
)
_OLDEST_PYTHON = (3, 10)
_OLDEST_SPARK = (4, 1)
_NO_SPACE = 200 << 20
_RELEASED = datetime(2025, 1, 1, tzinfo=timezone.utc).timestamp()
_SPARK_SECONDS = 180
_LOCAL = re.compile(r"local(?:\[(?P<cores>\d+|\*)(?:\s*,\s*\d+)?\])?")
_TRY_SPARK = """
import sys
from pathlib import Path
from pystate.common.configuration.configuration import Configuration
from pystate.runtime.spark.sessions.session import create_session
session = create_session(Configuration({"pystate.spark.master": "local[1]"}), "pystate doctor", Path(sys.argv[1]))
assert session.range(10).count() == 10
session.stop()
"""


def check_python() -> Finding:
    """Check the interpreter."""
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < _OLDEST_PYTHON:
        return fail("python", f"Python {version} is too old", "use Python 3.10 or newer")
    return ok("python", f"Python {version} ({sys.executable})")


def check_open_files() -> Finding:
    """Look how many files a process may have open."""
    from pystate.common.processes.open_files import check_files_of_spark

    try:
        check_files_of_spark()
    except ConfigurationError as error:
        return fail("open files", error.message.rstrip("."), error.hint)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = hard if hard != resource.RLIM_INFINITY else soft
    return ok("open files", f"up to {most:,} in a process" if most != resource.RLIM_INFINITY else "without a limit")


def check_packages() -> Finding:
    """Check that all required packages are installed."""
    missing = [name for name in PACKAGES if not _version(name)]
    if missing:
        return fail(
            "packages", f"not installed: {', '.join(missing)}", f"{sys.executable} -m pip install {' '.join(missing)}"
        )
    if _version(FOREIGN_NAME):
        text = f"the distribution {FOREIGN_NAME!r} is installed, which is not ours and writes to the same folders"
        again = f"{sys.executable} -m pip install --force-reinstall --no-deps {NAME}"
        return fail("packages", text, f"{sys.executable} -m pip uninstall {FOREIGN_NAME}, then {again}")
    return ok("packages", f"{len(PACKAGES)} packages are installed")


def check_java(home: PystateHome) -> Finding:
    """Check that there is a Java for Spark."""
    from pystate.common.processes.java import find_java

    try:
        java = find_java(home)
    except JavaNotFoundError as error:
        return fail("java", error.message, error.hint)
    return ok("java", f"Java {java.version} from {java.source} ({java.executable})")


def check_spark(*, start: bool) -> Finding:
    """Check Spark's version; with `start` also run a job."""
    version = _version("pyspark")
    if not version:
        return fail("spark", "PySpark is not installed", f"{sys.executable} -m pip install pyspark")
    if tuple(int(part) for part in version.split(".")[:2]) < _OLDEST_SPARK:
        return fail("spark", f"PySpark {version} is too old", f"{sys.executable} -m pip install 'pyspark>=4.1'")
    if not start:
        return ok("spark", f"PySpark {version}")
    with tempfile.TemporaryDirectory(prefix="pystate-doctor-") as folder:
        log = Path(folder, "spark.log")
        begun = time.monotonic()
        try:
            done = subprocess.run(  # noqa: S603 - our own program
                [sys.executable, "-c", _TRY_SPARK, str(log)],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_SPARK_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return fail("spark", f"PySpark {version} did not answer within {_SPARK_SECONDS} s", "pystate doctor --spark -v")
        if done.returncode:
            last = [line for line in done.stderr.splitlines() if line.strip()][-1:] or ["it says nothing"]
            return fail(
                "spark", f"PySpark {version} does not start: {last[0].strip()}", "look at Java and at spark.* settings"
            )
    return ok("spark", f"PySpark {version} ran a job in {time.monotonic() - begun:.1f} s")


def required_cores(configuration: Configuration) -> RequiredCores:
    """Return the cores that a job with one task after its source needs."""
    from pystate.common.configuration.groups.execution_options import CoreOptions, ExecutionEngine, ExecutionOptions
    from pystate.runtime.spark.applications.required_cores import micro_batch_cores, real_time_cores

    parallelism = int(configuration.get(CoreOptions.DEFAULT_PARALLELISM))
    if configuration.get(ExecutionOptions.ENGINE) is ExecutionEngine.REAL_TIME:
        return real_time_cores(parallelism, [parallelism])
    return micro_batch_cores(parallelism)


def check_cores(configuration: Configuration) -> Finding:
    """Compare Spark's cores with those that the parallelism needs."""
    from pystate.common.configuration.groups.execution_options import ExecutionEngine, ExecutionOptions
    from pystate.common.configuration.groups.pystate_options import SparkOptions

    required = required_cores(configuration)
    parallelism, needed = required.parallelism, required.cores
    is_real_time = configuration.get(ExecutionOptions.ENGINE) is ExecutionEngine.REAL_TIME
    here = core_count()
    master = configuration.get(SparkOptions.MASTER)
    more = f", and {parallelism} more for each further task of the real-time engine" if is_real_time else ""
    asked = f"parallelism {parallelism} needs {needed} tasks at once{more}"
    if master is None:
        if here < parallelism:
            text = f"{asked}; Spark gets as many threads, but this machine has {here} cores for {parallelism} subtasks"
            return warn("cores", text, f"-D parallelism.default={here}")
        return ok("cores", f"{here} cores; {asked}, and Spark gets as many threads")
    local = _LOCAL.fullmatch(master)
    if local is None:
        return ok("cores", f"{asked}; {master} is asked at the start of a job")
    tries = 1 if is_real_time else 4
    given = here if local["cores"] == "*" else int(local["cores"] or 1)
    if given < needed:
        return fail(
            "cores", f"{asked}, and {master} gives {given}", f"leave pystate.spark.master out, or local[{needed},{tries}]"
        )
    return ok("cores", f"{asked}, and {master} gives {given}")


def check_authentication(configuration: Configuration) -> Iterator[Finding]:
    """Check the authentication of Spark's connections; nothing is reported for a local master with default settings."""
    from pystate.common.configuration.execution_target import local_threads
    from pystate.common.configuration.groups.execution_options import ExecutionEngine, ExecutionOptions
    from pystate.common.configuration.groups.pystate_options import SparkOptions
    from pystate.runtime.spark.sessions.authentication import AUTHENTICATE, authentication_notices

    master = str(configuration.get(SparkOptions.MASTER) or "local[1]")
    is_local = local_threads(master) is not None
    settings = {**({AUTHENTICATE: "true"} if is_local else {}), **configuration.spark_properties(), "spark.master": master}
    real_time = configuration.get(ExecutionOptions.ENGINE) is ExecutionEngine.REAL_TIME
    notices = authentication_notices(settings.get, real_time=real_time)
    for notice in notices:
        text, _, hint = notice.rpartition("; ")
        yield warn("spark ports", text, hint.rstrip("."))
    if not notices and not is_local:
        yield ok("spark ports", f"{AUTHENTICATE} = true: {master} and jobs ask for a proof")


def check_disks(home: PystateHome, places: list[str], limit: int) -> Iterator[Finding]:
    """Check the free space where pystate writes on this machine, once per disk.

    Args:
        home: The installation.
        places: The configured folders.
        limit: Warn below this many free bytes; 0 for never.
    """
    seen: dict[int, None] = {}
    for name in (str(home.root), tempfile.gettempdir(), *places):
        path = Path(name)
        while not path.exists() and path != path.parent:
            path = path.parent
        try:
            device, usage = path.stat().st_dev, shutil.disk_usage(path)
        except OSError as error:
            yield fail("disk", f"{path} can't be looked at: {error.strerror}")
            continue
        if device in seen:
            continue
        seen[device] = None
        left = f"{format_size(usage.free)} free of {format_size(usage.total)} at {path}"
        if usage.free < min(_NO_SPACE, limit):
            yield fail("disk", left, "make room: checkpoints fail when there is none")
        elif usage.free < limit:
            yield warn("disk", left, "make room: state, logs and checkpoints grow; pystate savepoints gc finds old ones")
        else:
            yield ok("disk", left)


def check_clock() -> Finding:
    """Check that the clock is plausible."""
    now = time.time()
    if now < _RELEASED:
        return fail(
            "clock", f"it says {datetime.fromtimestamp(now, timezone.utc):%Y-%m-%d %H:%M} UTC", "set it: timedatectl"
        )
    return ok("clock", f"{datetime.fromtimestamp(now).astimezone():%Y-%m-%d %H:%M:%S %Z}")


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
