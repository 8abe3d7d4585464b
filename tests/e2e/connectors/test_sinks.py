"""Sinks in two phases on Spark: each element is visible once, whatever dies, and nothing is visible early or left behind."""

from __future__ import annotations

from collections import Counter

import pytest

from pystate.common import Types
from pystate.common.errors import JobCancelledError
from pystate.common.job_status import JobStatus
from pystate.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from pystate.datastream.connectors.file_system import FileSource
from tests.connectors.folder_sink import FolderSink, RememberingSink
from tests.engines import MICRO_BATCH, REAL_TIME, on_both_engines, slowly_on_real_time
from tests.faults.injection import Action, Faults, Step
from tests.faults.processes import needs_proc
from tests.faults.workload import COUNTED, RECOVERING, Count, Watched

pytestmark = [needs_proc, pytest.mark.timeout(300)]

WORDS = [f"word-{number % 7}" for number in range(100)]
OPTIONS = {**RECOVERING, "restart-strategy.fixed-delay.delay": "0 ms"}


def counted(words):
    seen = Counter()
    for word in words:
        seen[word] += 1
        yield f"('{word}', {seen[word]})"


def bounded(sink, mode):
    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_runtime_mode(mode)
        words = env.from_collection(WORDS, Types.STRING()).key_by(lambda word: word, key_type=Types.STRING())
        words.process(Count(), COUNTED).uid("count").sink_to(sink).uid("sink")
        env.execute("bounded")

    return program


@pytest.mark.parametrize(
    ("engine", "mode", "options"),
    [
        (MICRO_BATCH, RuntimeExecutionMode.STREAMING, {"execution.checkpointing.interval": "1 h"}),
        pytest.param(MICRO_BATCH, RuntimeExecutionMode.STREAMING, {}, marks=pytest.mark.slow),
        (MICRO_BATCH, RuntimeExecutionMode.BATCH, {}),
        pytest.param(
            REAL_TIME,
            RuntimeExecutionMode.STREAMING,
            {"execution.checkpointing.interval": "1 h"},
            marks=pytest.mark.slow,
        ),
        pytest.param(REAL_TIME, RuntimeExecutionMode.STREAMING, {}, marks=pytest.mark.slow),
    ],
    indirect=["engine"],
)
def test_the_end_of_a_bounded_job_makes_all_visible(run_job, tmp_path, mode, options):
    sink = RememberingSink(tmp_path / "out", least=1000)  # holds all back until the end
    run_job(bounded(sink, mode), options).result()
    assert sink.lines() == Counter(counted(WORDS))
    assert not sink.waiting()


def counting(watched, sink, faults):
    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        source = FileSource(str(watched.folder), monitor_interval_ms=1000, max_files_per_epoch=2)
        words = env.from_source(source, None, "words").key_by(lambda word: word, key_type=Types.STRING())
        words.process(Count(faults=faults), COUNTED).uid("count").sink_to(sink).uid("sink")
        env.execute("counting")

    return program


def expected(watched):
    return Counter(str(pair) for pair in watched.pairs)


@pytest.fixture
def faults(tmp_path):
    made = Faults(tmp_path / "faults")
    yield made
    made.disarm()


@pytest.mark.slow
@on_both_engines
def test_a_slot_killed_before_and_after_a_commit_and_other_parallelisms(run_job, tmp_path, faults):
    watched, sink = Watched(tmp_path), FolderSink(tmp_path / "out")
    watched.add(2)
    job = run_job(counting(watched, sink, faults), OPTIONS)
    job.wait_for(lambda: sink.lines())
    for step in (Step.NOTIFY, Step.FROZEN, Step.ELEMENT):
        faults.arm(step, Action.KILL)
        watched.add(1)
        job.wait_for(lambda step=step: faults.struck(step))
        job.wait_for(lambda: sink.lines() == expected(watched))
    watched.add(2)
    path = job.savepoint(tmp_path / "savepoints", stop=True)
    job.result()
    stopped_at = sink.lines()
    assert not stopped_at - expected(watched), "an element is visible twice, or never was"
    watched.add(2)
    job = run_job(
        counting(watched, sink, faults), {**OPTIONS, "parallelism.default": "3", "execution.state-recovery.path": path}
    )
    job.wait_for(lambda: sink.lines() == expected(watched))
    job.savepoint(tmp_path / "savepoints", cancel=True)
    with pytest.raises(JobCancelledError):
        job.result()
    assert sink.lines() == expected(watched)
    assert stopped_at <= sink.lines()


@slowly_on_real_time
@pytest.mark.parametrize("action", [Action.KILL, pytest.param(Action.FAIL, marks=pytest.mark.slow)])
def test_a_slot_that_dies_while_a_stop_commits(run_job, tmp_path, faults, action):
    watched, sink = Watched(tmp_path), FolderSink(tmp_path / "out")
    watched.add(2)
    job = run_job(counting(watched, sink, faults), {**OPTIONS, "execution.checkpointing.interval": "1 h"})
    job.wait_for(lambda: len(sink.waiting()) == 2)
    job.wait_for(lambda: sum(len(file.read_text().splitlines()) for file in sink.waiting()) == len(watched.pairs))
    faults.arm(Step.NOTIFY, action)
    job.savepoint(tmp_path / "savepoints", stop=True)
    job.result()
    assert faults.struck(Step.NOTIFY)
    assert job.status["state"] == JobStatus.FINISHED.value
    assert sink.lines() == expected(watched)
    assert not sink.waiting()


@on_both_engines
@pytest.mark.slow
def test_a_slot_that_dies_while_the_last_checkpoint_is_committed(run_job, tmp_path, faults):
    sink = FolderSink(tmp_path / "out")

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        words = env.from_collection(WORDS, Types.STRING()).key_by(lambda word: word, key_type=Types.STRING())
        words.process(Count(faults=faults), COUNTED).uid("count").sink_to(sink).uid("sink")
        env.execute("bounded")

    faults.arm(Step.NOTIFY, Action.KILL)
    run_job(program, {**OPTIONS, "execution.checkpointing.interval": "1 h"}).result()
    assert faults.struck(Step.NOTIFY)
    assert sink.lines() == Counter(counted(WORDS))
    assert not sink.waiting()
