"""A driver killed -9 while a stop's savepoint is about to be complete, or is: nothing is lost or doubled in the sink."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.connectors.folder_sink import FolderSink
from tests.e2e.commands.test_command_line import Shell
from tests.engines import on_both_engines
from tests.faults.injection import Action, Faults, Step
from tests.faults.processes import is_gone, needs_proc
from tests.faults.test_killed_drivers import Job
from tests.waiting import wait_until

pytestmark = [needs_proc, pytest.mark.slow, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys, pathlib
sys.path.insert(0, {root!r})
from tests.connectors.folder_sink import FolderSink
from tests.faults.injection import Faults
from tests.faults.workload import COUNTED, Count
from pystate.common import Types
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.connectors.file_system import FileSource

faults = Faults(pathlib.Path({faults!r}))
faults.install()
env = StreamExecutionEnvironment.get_execution_environment()
source = FileSource(sys.argv[1], monitor_interval_ms=1000)
words = env.from_source(source, None, "words").key_by(lambda word: word, key_type=Types.STRING())
counted = words.process(Count(faults=faults), COUNTED).uid("count")
counted.map(lambda pair: str(pair), Types.STRING()).print()
counted.sink_to(FolderSink(pathlib.Path({out!r}))).uid("sink")
env.execute("word count")
"""


@pytest.fixture
def job(tmp_path, engine):
    shell = Shell(tmp_path)
    shell.program.write_text(PROGRAM.format(root=str(ROOT), faults=str(tmp_path / "faults"), out=str(tmp_path / "out")))
    yield Job(shell, tmp_path, engine)
    shell.close()


@on_both_engines
@pytest.mark.parametrize("step", [Step.METADATA, Step.METADATA_WRITTEN, Step.TELL])
def test_a_driver_killed_at_a_stop_goes_on_from_its_savepoint(job, tmp_path, step):
    faults, sink = Faults(tmp_path / "faults"), FolderSink(tmp_path / "out")
    job.options += ["-D", "execution.checkpointing.interval=1 h"]
    job.watched.add(3)
    job.start().wait_for_words()
    assert not sink.lines()
    driver = job.driver
    faults.arm(step, Action.KILL)
    with contextlib.suppress(AssertionError):  # the command's answer is an error: the driver that knew of it is dead
        job.shell("stop", job.id)
    wait_until(lambda: is_gone(driver))
    assert faults.struck(step) == [driver]
    faults.disarm()
    wait_until(lambda: job.status["state"] in ("RUNNING", "FINISHED") and job.status["attempt"] == 1)
    if job.status["state"] == "RUNNING":
        job.watched.add(1)
        wait_until(lambda: job.seen() >= job.watched.pairs)
        job.shell("stop", job.id)
    wait_until(lambda: job.status["state"] == "FINISHED")
    found = {(word, int(count)) for word, count in re.findall(r"\('(word-\d+)', (\d+)\)", "".join(sink.lines()))}
    assert max(sink.lines().values()) == 1
    assert found <= job.watched.pairs
    if step is not Step.METADATA:
        assert re.search(r"Attempt 1 starts from (savepoint|checkpoint)", job.log)
    assert Counter(word for word, _ in found) == job.watched.words
