"""The driver's seam for engines, by one without Spark and without epochs."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from pathlib import Path

import pytest

from pystate.common import Types
from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import JobCancelledError
from pystate.common.files.home import JobDirectory, PystateHome, new_job_id
from pystate.common.job_status import JobStatus
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.stream_graph import StreamGraph
from pystate.core.api.transformations import OneInputTransformation
from pystate.datastream import KeyedProcessFunction, ValueStateDescriptor
from pystate.runtime.driver.job_master import JobMaster
from pystate.runtime.execution import starvation_watch
from pystate.runtime.execution.status import JobStatusStore
from tests.runtime.driver.toy_engine import ToyJobEngine, ToyResources
from tests.runtime.plan.programs import WORD, keyed, printed, source
from tests.waiting import LONGEST_S, ends, wait_until

COUNTED = Types.TUPLE([Types.STRING(), Types.LONG()])
WORDS = [f"word {number * number % 11}" for number in range(60)]
FAILS_AT = 40


class Count(KeyedProcessFunction):
    """Fails once, where the mark isn't there yet."""

    def __init__(self, mark):
        self.mark = mark

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        word = value["word"]
        if word == "fails" and not Path(self.mark).exists():
            Path(self.mark).touch()
            raise ValueError(word)
        self.count.update((self.count.value() or 0) + 1)
        yield f"{word}={self.count.value()}"


class Job:
    def __init__(self, folder, words, parallelism, **options):
        folder.mkdir()
        self.directory = JobDirectory(folder)
        root = source(output_type=WORD, bounded=True)
        counted = OneInputTransformation(
            "count",
            (keyed(root, column="word"),),
            Types.STRING(),
            uid="count",
            kind=OperatorKind.PROCESS,
            function=Count(str(folder / "mark")),
            keyed=True,
        )
        printed(counted)
        graph = StreamGraph([root])
        configuration = Configuration(
            {
                "execution.checkpointing.dir": str(folder.parent / "ck"),
                "execution.checkpointing.interval": "1 h",
                "restart-strategy.type": "fixed-delay",
                "restart-strategy.fixed-delay.delay": "0 s",
                "parallelism.default": str(parallelism),
                **options,
            }
        )
        self.status = JobStatusStore(self.directory, "toy")
        self.said = []
        self.job_id = new_job_id()  # its own: slots remove what earlier attempts of their job have left, also another test's
        self.master = JobMaster(
            self.job_id,
            "toy",
            graph,
            configuration,
            ToyResources(),
            lambda context: ToyJobEngine(context, words),
            self.directory,
            self.status,
            home=PystateHome(folder.parent / "home"),
            job_runs=lambda _: None,
            say=self.said.append,
        )
        self.engine = self.master.engine
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        with contextlib.suppress(JobCancelledError):
            self.master.run()

    def end(self):
        assert ends(self.thread), self.said
        return self.status.state

    @property
    def counts(self):
        """The highest count of each word that was given out."""
        found = {}
        for line in self.engine.output:
            word, _, count = line.rpartition("> ")[2].rpartition("=")
            found[word] = max(int(count), found.get(word, 0))
        return found


@pytest.fixture
def job(tmp_path):
    made = []

    def make(name, words, parallelism, **options):
        made.append(Job(tmp_path / (name * 8), words, parallelism, **options))
        return made[-1]

    yield make
    for one in made:
        one.master.cancel()
        one.thread.join(LONGEST_S)


def test_a_failed_subtask_goes_back_to_the_checkpoint_and_a_savepoint_is_resumed_at_another_parallelism(job, tmp_path):
    words = [*WORDS[:FAILS_AT], "fails", *WORDS[FAILS_AT:]]
    first = job("a", words, 2)
    first.engine.allow(15)
    first.engine.await_read(15)
    first.master.coordinator.trigger_checkpoint().result(LONGEST_S)
    first.engine.allow(50)
    wait_until(lambda: len(first.engine.started_at) == 2)
    assert first.engine.started_at == [0, 15]
    first.engine.await_read(50)
    assert first.counts == Counter(words[:50])
    savepoint = first.master.savepoint(str(tmp_path / "sp"), stop=True, cancel=False).result(LONGEST_S).path
    assert first.end() is JobStatus.FINISHED
    assert "ValueError: fails" in str(first.status.snapshot()["failures"])

    second = job("b", words, 1, **{"execution.state-recovery.path": savepoint})
    second.engine.allow(len(words))
    assert second.end() is JobStatus.FINISHED
    assert second.engine.started_at == [50]
    assert {**first.counts, **second.counts} == Counter(words)


def test_a_running_job_whose_slots_hold_all_cores_says_so_until_there_is_one_more(job, monkeypatch):
    lacking, told = [True], "The job stands still: 2 wait."
    monkeypatch.setattr(starvation_watch, "_LOOK_EVERY_S", 0)
    monkeypatch.setattr(ToyResources, "lack", lambda _, tasks: "2 wait" if lacking and tasks == 3 else None)
    running = job("c", WORDS, 2)
    wait_until(lambda: running.status.snapshot()["waits_for"] == told)
    assert running.status.state is JobStatus.RUNNING
    lacking.clear()
    wait_until(lambda: running.status.snapshot()["waits_for"] is None)
    assert running.said.count(told) == 1
