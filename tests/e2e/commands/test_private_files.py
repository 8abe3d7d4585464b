"""Who can look at what a job leaves on its machine, while it runs and later: nobody but its user, with the usual umask."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
OTHERS = stat.S_IRWXG | stat.S_IRWXO
PROGRAM = """
from pystate.common import Types
from pystate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor

class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield value, self.count.value()

env = StreamExecutionEnvironment.get_execution_environment()
env.enable_checkpointing(100)
numbers = env.from_collection(list(range(100)), Types.INT())
numbers.key_by(lambda one: one % 5, Types.INT()).process(Count()).uid("count").print()
env.execute("counts")
"""


class Onlooker:
    """Another user of the machine who looks again and again for what he can read or look into below some folders."""

    def __init__(self, *roots: tuple[Path, str]) -> None:
        self._roots = roots
        self._before = set(self._first())
        self.seen: dict[str, str] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look_until_done)

    def __enter__(self) -> Onlooker:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._done.set()
        self._thread.join()
        self._look()

    def _first(self) -> list[Path]:
        return [path for root, pattern in self._roots for path in root.glob(pattern)]

    def _look_until_done(self) -> None:
        while not self._done.wait(0.01):
            self._look()

    def _look(self) -> None:
        places = [path for path in self._first() if path not in self._before]
        while places:
            path = places.pop()
            try:
                mode = path.lstat().st_mode
                if stat.S_ISLNK(mode) or not mode & OTHERS:
                    continue
                self.seen[str(path)] = f"{stat.S_IMODE(mode):o}"
                if stat.S_ISDIR(mode):
                    places += path.iterdir()
            except FileNotFoundError:
                continue


@pytest.mark.slow
@pytest.mark.parametrize("command", [(), ("-m", "pystate_cli", "run")], ids=["embedded", "run"])
def test_nobody_else_can_look_at_the_files_of_a_job(command: tuple[str, ...], tmp_path: Path) -> None:
    temporary, program = tmp_path / "tmp", tmp_path / "program" / "job.py"
    for folder in (temporary, program.parent):
        folder.mkdir()
    program.write_text(PROGRAM)
    home = tmp_path / "homes" / "mine"
    environment = {**os.environ, "PYSTATE_HOME": str(home), "TMPDIR": str(temporary), "PYSTATE_CONF_DIR": str(ROOT / "conf")}

    def shell(*words: str) -> str:
        line = ["/bin/sh", "-c", 'umask 022; exec "$@"', "sh", sys.executable, *words]
        done = subprocess.run(line, env=environment, capture_output=True, text=True, cwd=program.parent, timeout=300)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    with Onlooker((temporary, "*"), (tmp_path, "homes"), (Path("/dev/shm"), "pystate-*")) as onlooker:
        printed = shell(*command, str(program))
        if command:
            shell("-m", "pystate_cli", "cluster", "stop")

    assert "(99, 20)" in printed
    assert onlooker.seen == {}
    assert list(home.glob("jobs/*/status.json")), "it is this home that was looked at"
    places = [path for path in (home, *home.rglob("*")) if not path.is_symlink() and home / "java" not in path.parents]
    assert [path for path in places if path.lstat().st_mode & OTHERS] == [], "a second wall: each has a mode of its own"
