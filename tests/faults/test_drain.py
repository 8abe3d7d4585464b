"""A drain that breaks: slots are killed in its epoch, its savepoint can't be written. The job goes on before it."""

from __future__ import annotations

import pytest

from pystate.common import Duration, WatermarkStrategy
from pystate.common.errors import PystateError
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.connectors.file_system import FileSource
from tests.e2e.time.test_event_time import BOUND, END, WORD, Folder, Second, expected, kept, random_lines, windows
from tests.engines import MICRO_BATCH, REAL_TIME, on_both_engines
from tests.faults.faulty_storage import FAULTS
from tests.faults.injection import Action, Faults, Step, strike_in_driver
from tests.faults.processes import needs_proc
from tests.faults.workload import RECOVERING, Sink
from tests.waiting import LONGEST_S

pytestmark = [needs_proc, pytest.mark.timeout(240)]

OPTIONS = {
    **{key: value for key, value in RECOVERING.items() if key.startswith("restart")},  # the test triggers its checkpoints
    "execution.checkpointing.data-inline-threshold": "0",
}
IN_SLOTS = {
    MICRO_BATCH: [
        (Step.PREPARED, Action.KILL),  # in the drain's epoch, after its timers
        (Step.FLUSHED, Action.KILL),  # event time has ended in the state of one slot
    ],
    REAL_TIME: [
        (Step.BARRIER, Action.KILL),  # after a source's last record, or the timers of a task
        (Step.FROZEN, Action.KILL),  # event time has ended in the state of one slot
    ],
}
IN_STORAGE = [
    (Step.ACKNOWLEDGE, Action.KILL),  # the savepoint's files are written
    (Step.WRITE, Action.FAIL),  # they can't be written
    (Step.METADATA, Action.FAIL),  # only what names them can't
]


@on_both_engines
@pytest.mark.slow
def test_a_drain_that_breaks_leaves_the_job_before_it_and_the_next_one_drains(run_job, engine, tmp_path, monkeypatch):
    storage = tmp_path / "storage"
    faults = Faults(storage / FAULTS)
    folder, first, second = Folder(tmp_path), Sink(), Sink()
    strike_in_driver(monkeypatch, Step.METADATA, lambda: faults.reached(Step.METADATA))

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(BOUND))
        source = FileSource(str(folder.path), monitor_interval_ms=300)
        assigner = strategy.with_timestamp_assigner(Second())
        # one reader: one without a file would hold event time up
        lines = env.from_source(source, assigner, "lines").set_parallelism(1).uid("lines")
        carried = lines.rebalance().map(Passing(faults), WORD).uid("carrier")
        windows(carried, first, second, strategy=False, kept=True)
        env.execute("drained")

    def drain(number):
        return job.master.savepoint(f"faulty://{storage}/{number}", stop=True, cancel=False, drain=True).result(LONGEST_S)

    folder.add(sorted(random_lines(1, 100, 0, 9_000), key=lambda line: int(line[3:])) + ["w0,12999"])
    job = run_job(program, OPTIONS)

    def read(below):
        wanted = set(expected(folder.lines, below)[0])
        job.wait_for(lambda: wanted <= set(first.rows))

    breaking = [*IN_SLOTS[engine], *IN_STORAGE]
    for number, (step, action) in enumerate(breaking):
        read(9_999 + 3_000 * number)
        job.master.coordinator.trigger_checkpoint().result(LONGEST_S)
        attempt = job.status["attempt"]
        faults.arm(step, action)
        with pytest.raises(PystateError):
            drain(number)
        assert faults.struck(step), step
        faults.disarm()
        job.wait_for(lambda attempt=attempt: job.status["attempt"] > attempt and job.status["state"] == "RUNNING")
        folder.add(random_lines(number, 30, 10_000 + 3_000 * number, 3_000) + [f"w0,{15_999 + 3_000 * number}"])
    read(9_999 + 3_000 * len(breaking))
    saved = drain(len(breaking))
    job.result()
    assert job.status["state"] == "FINISHED"
    assert kept(saved.path) == expected(folder.lines, END)


class Passing:
    """Hands on what it gets, and carries faults into the slots."""

    def __init__(self, faults):
        self.faults = faults

    def __call__(self, value):
        return value
