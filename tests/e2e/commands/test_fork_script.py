"""examples/ops/fork.sh on real jobs: two jobs from one savepoint of a third; none of them notices the others."""

import json
import os
import subprocess
import sys
import zlib

import pytest

from pystate.core.snapshot.reading.snapshot_reader import SnapshotReader
from tests.e2e.commands.test_command_line import ROOT, Shell
from tests.waiting import wait_until

# counts words; what a fork adds to each count tells the programs apart
PROGRAM = """
import os
import sys
from pathlib import Path
from pystate.common import Types
from pystate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
from pystate.datastream.connectors.file_system import FileSource

STEP = {"a": 10, "b": 100}.get(os.environ.get("FORK"), 1)
sink = Path(sys.argv[2]) / os.environ.get("FORK", "origin")

class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + STEP)
        yield value, self.count.value()

def append(frame, epoch):
    with sink.open("a") as file:
        file.write("".join(f"{row[0]} {row[1]}\\n" for row in frame.collect()))

env = StreamExecutionEnvironment.get_execution_environment()
words = env.from_source(FileSource(sys.argv[1], monitor_interval_ms=300), None, "words")
pairs = Types.TUPLE([Types.STRING(), Types.LONG()])
words.key_by(lambda word: word).process(Count(), output_type=pairs).uid("count").for_each_batch(append)
env.execute("fork")
"""


@pytest.fixture
def shell(tmp_path):
    made = Shell(tmp_path)
    yield made
    made.close()


def content(folder):
    return {path.name: zlib.crc32(path.read_bytes()) for path in folder.iterdir()}


def counts(path):
    return dict(SnapshotReader(path).keyed_entries("count", "count"))


@pytest.mark.slow  # three jobs of Spark at once
@pytest.mark.timeout(900)
def test_two_jobs_from_one_savepoint_do_not_touch_each_other(shell, tmp_path):
    program, sinks = tmp_path / "words.py", tmp_path / "sinks"
    program.write_text(PROGRAM)
    sinks.mkdir()
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "pystate").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pystate_cli "$@"\n')
    (commands / "pystate").chmod(0o755)

    def last_of(name):
        path = sinks / name
        lines = path.read_text().splitlines() if path.exists() else []
        return lines[-1] if lines else ""

    shell.add("1.txt", ["word"] * 3)
    options = ("-D", "execution.checkpointing.interval=500ms")
    origin = shell("run", "-d", "-p", "1", *options, program, shell.folder, sinks).stdout.strip()
    wait_until(lambda: last_of("origin") == "word 3")

    environment = {
        **shell.environment,
        "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
        "RUN_OPTIONS": "-p 1 -D execution.checkpointing.interval=500ms",
    }
    command = [ROOT / "examples" / "ops" / "fork.sh", "fork", program, program, shell.folder, sinks]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    a, b = done.stdout.split()
    (savepoint,) = (shell.home / "savepoints").iterdir()
    before = content(savepoint)

    shell.add("2.txt", ["word"])
    wait_until(lambda: (last_of("origin"), last_of("a"), last_of("b")) == ("word 4", "word 13", "word 103"))
    shell("cancel", a)
    shell.add("3.txt", ["word"])
    wait_until(lambda: (last_of("origin"), last_of("b")) == ("word 5", "word 203"))

    assert last_of("a") == "word 13", "an ended fork goes no further"
    assert content(savepoint) == before, "nobody has touched what all came from"
    ends = {job: shell("cancel", "-s", job).stdout.strip() for job in (origin, b)}
    assert [counts(path) for path in ends.values()] == [{"word": 5}, {"word": 203}]
    assert counts(str(savepoint)) == {"word": 3}

    tree = json.loads(shell("savepoints", "list", "--json").stdout)["savepoints"]
    parents = {one["jobId"]: one["parentId"] for one in tree if one["message"] is None}
    assert parents == {origin: None, b: savepoint.name[-12:]}
    assert [one["message"] for one in tree if one["path"].endswith(savepoint.name)] == ["fork"]
    assert len({one["codeFingerprint"] for one in tree}) == 1, "the same program: its environment is no part of it"
    for path in (savepoint, *ends.values()):
        assert "is sound" in shell("savepoints", "verify", path).stdout
    assert "alone" not in shell("savepoints", "gc", "--dry-run").stdout
