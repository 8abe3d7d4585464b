"""Jobs start and run on a machine on which much else wants a CPU: nothing is given up because it is slow."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pystate.common.processes.machine_load import core_count

LOOPS_PER_CORE = 15
SECONDS = 600
"""When the loops end by themselves, whatever becomes of the test; it may take minutes, and must have them to its end."""
LOOP = f"import time\nend = time.monotonic() + {SECONDS}\nwhile time.monotonic() < end: pass"
PROGRAM = """
from pystate.common import Types
from pystate.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
words = env.from_collection(["a b a", "c a b"] * 5, Types.STRING()).flat_map(str.split, Types.STRING())
pairs = words.map(lambda word: (word, 1)).key_by(lambda pair: pair[0])
counts = pairs.reduce(lambda one, other: (one[0], one[1] + other[1]))
counts.map(lambda pair: f"{pair[0]}={pair[1]}").print()
env.execute("counts")
"""


@pytest.fixture
def busy() -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-S", "-c", LOOP]) for _ in range(LOOPS_PER_CORE * core_count())]
    yield
    for loop in loops:
        loop.kill()
    for loop in loops:
        loop.wait()


@pytest.mark.slow
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("engine", ["micro-batch", "real-time"])
@pytest.mark.usefixtures("busy")
def test_a_program_starts_its_job_and_ends_it_well_beside_fifteen_busy_loops_for_each_core(tmp_path: Path, engine: str):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "flink-conf.toml").write_text(f'"execution.engine" = "{engine}"\n')
    (tmp_path / "counts.py").write_text(PROGRAM)
    environment = {**os.environ, "PYSTATE_HOME": str(tmp_path / "home"), "PYSTATE_CONF_DIR": str(tmp_path / "conf")}
    ended = subprocess.run(
        [sys.executable, "counts.py"], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert {"a=15", "b=10", "c=5"} <= {line.split("> ")[-1] for line in ended.stdout.splitlines()}
    assert "tried once more" not in ended.stderr
    assert "starts in" not in ended.stderr
