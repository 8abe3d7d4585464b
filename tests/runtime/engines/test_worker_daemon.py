"""Workers come from a daemon that has imported all they need, started no thread, and gives way to Spark's where it can't."""

from __future__ import annotations

import json
import os
import random
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyspark
import pytest

from pystate.common.configuration import Configuration
from pystate.runtime.engines import worker_daemon
from pystate.runtime.spark.sessions.session import session_settings
from tests.faults.processes import needs_proc
from tests.waiting import LONGEST_S

KEY = "spark.python.daemon.module"
LIBRARIES = Path(pyspark.__file__).parent / "python" / "lib"
ARCHIVES = [str(path) for path in sorted(LIBRARIES.glob("*.zip"))]


def environment(*first: Path) -> dict[str, str]:
    """As Spark starts its daemon: its archives are first on the path."""
    path = [*map(str, first), *ARCHIVES, *(entry for entry in sys.path if entry)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHON_WORKER_FACTORY_SECRET": "x", "OMP_NUM_THREADS": "1"}


@pytest.fixture
def daemon() -> Iterator[Callable[..., tuple[str, str]]]:
    """Start it, and return its command line once it listens, and what it has said in the end."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*first: Path) -> tuple[str, str]:
        process = subprocess.Popen(
            [sys.executable, "-m", worker_daemon.__name__, "pyspark.worker"],
            env=environment(*first),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        started.append(process)
        assert process.stdout is not None
        (port,) = struct.unpack("!i", process.stdout.read(4))
        assert 0 < port < 1 << 16
        command = Path(f"/proc/{process.pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        _, said = process.communicate(timeout=LONGEST_S)  # it ends when its input does
        return command, said.decode()

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_it_is_the_daemon_of_jobs_without_a_cluster_unless_the_user_has_another() -> None:
    module = session_settings(Configuration())[KEY]
    assert find_spec(module) is not None
    assert module == worker_daemon.__name__
    assert session_settings(Configuration({KEY: "mine"}))[KEY] == "mine"


LOADED = """
import json, os, sys
from pystate.runtime.engines import worker_daemon
assert not [name for name in sys.modules if name.startswith(("pyspark", "pyarrow"))], "found before the path is looked at"
path = list(sys.path)
worker_daemon.load()
import pyspark, py4j
print(json.dumps({
    "same path": path == sys.path,
    "pyspark": [pyspark.__file__, sys.modules["pyspark.worker"].__file__, py4j.__file__],
    "threads": worker_daemon.threads_of_process(),
    "descriptors": [os.path.realpath(f"/proc/self/fd/{one}") for one in os.listdir("/proc/self/fd") if int(one) > 2],
    "modules": sorted(sys.modules),
}))
"""


@needs_proc
def test_it_loads_compiled_modules_and_starts_no_thread() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED], env=environment(), capture_output=True, text=True, check=True, timeout=120
    )
    found = json.loads(done.stdout)
    assert found["same path"]
    assert not [file for file in found["pyspark"] if ".zip" in file]
    assert found["threads"] == 1
    assert not [one for one in found["descriptors"] if "socket:" in one or "pipe:" in one]
    assert {*worker_daemon.MODULES, *worker_daemon.LATER} <= {*found["modules"]}
    assert "pandas" not in found["modules"], "few workers need it, and it takes half a second"


@needs_proc
def test_it_says_nothing_and_serves_as_spark_knows_it(daemon: Callable[..., tuple[str, str]]) -> None:
    command, said = daemon()
    assert worker_daemon.__name__ in command
    assert said == ""


@needs_proc
@pytest.mark.parametrize(
    ("module", "text", "reason"),
    [
        (
            "sitecustomize",
            "from threading import Timer\nwaits = Timer(60, print)\nwaits.daemon = True\nwaits.start()",
            "thread",
        ),
        ("msgpack", "raise ValueError('broken')", "broken"),
    ],
)
def test_where_it_cant_sparks_own_takes_over_with_one_warning(
    daemon: Callable[..., tuple[str, str]], tmp_path: Path, module: str, text: str, reason: str
) -> None:
    (tmp_path / f"{module}.py").write_text(text)
    command, said = daemon(tmp_path)
    assert f"-m {worker_daemon.OF_SPARK} pyspark.worker" in command
    assert said.count("WARNING") == said.count("\n") == 1
    assert reason in said


FORKED = """
import gc, os, random, sys
import numpy.random  # which NumPy 1 brings itself
from pystate.runtime.engines import worker_daemon
worker_daemon.load()
gc.collect()
gc.freeze()
for number in range(3):
    if not os.fork():
        from tests.runtime.engines.test_worker_daemon import work
        print(work(sys.argv[1] + f"/{number}"), flush=True)
        os._exit(0)
    assert os.wait()[1] == 0
"""


def work(folder: str) -> str:
    """Use in a fork what has threads, locks, pools or seeds; return what was drawn."""
    rocksdict = pytest.importorskip("rocksdict")
    store = rocksdict.Rdict(folder)
    for number in range(1_000):
        store[number] = b"value"
    store.flush()
    assert store[999] == b"value"
    store.close()
    table = pa.table({"key": [number % 7 for number in range(100_000)], "value": range(100_000)})
    grouped = table.group_by("key", use_threads=True).aggregate([("value", "sum")])
    assert pc.sum(grouped["value_sum"]).as_py() == sum(range(100_000))
    assert np.linalg.inv(np.eye(300))[0, 0] == 1.0
    return f"{random.random()} {np.random.random()} {np.random.default_rng().random()}"  # noqa: NPY002, S311


@needs_proc
def test_forks_of_it_work_and_draw_numbers_of_their_own(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", FORKED, str(tmp_path)],
        env=environment(), capture_output=True, text=True, timeout=120, cwd=root, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    drawn = [line.split() for line in done.stdout.splitlines()]
    assert len(drawn) == 3
    assert all(len(set(column)) == 3 for column in zip(*drawn, strict=True))
