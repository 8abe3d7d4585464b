"""A job's metrics as the job manager gets them: from a driver that answers, hangs, starts, or is gone."""

import threading
from types import SimpleNamespace

import pytest

from pystate.common.errors import ControlError
from pystate.common.job_status import JobStatus
from pystate.core.metrics.last_metrics import LastMetrics
from pystate.core.metrics.store import figures
from pystate.ops.jobmanager.drivers.driver_gateway import DriverUnreachableError
from pystate.ops.jobmanager.rest.routes import metric_routes
from pystate.ops.jobmanager.supervision.metric_fetcher import TIMEOUT_SECONDS, MetricFetcher
from tests.core.metrics.metrics_answer import driver_metrics, metrics_answer
from tests.runtime.checkpoint.stats.statistics import Statistics
from tests.waiting import LONGEST_S

NOW = 1_000_000


class Job:
    """A job whose status and driver a test sets."""

    def __init__(self):
        self.status = {"state": "RUNNING", "attempt": 2, "timestamps": {"RUNNING": NOW - 5000, "RESTARTING": NOW - 9000}}
        self.statistics = Statistics().run(1).tracker
        self.driver = lambda: metrics_answer(self.statistics)
        self.has_no_driver = False
        self.seconds = 0.0
        self.calls = 0
        self.kept = None
        self.metrics = MetricFetcher(
            self.call,
            lambda: self.status,
            Statistics().run(1, 2).tracker.samples,
            lambda: self.has_no_driver,
            lambda: NOW,
            lambda: self.seconds,
            kept=lambda: self.kept,
        )

    def call(self, op, *, timeout):
        assert (op, timeout) == ("metrics", TIMEOUT_SECONDS)
        self.calls += 1
        return self.driver()

    def read(self):
        view = self.metrics.current()
        return view, figures(view.job)


@pytest.fixture
def job():
    return Job()


def hangs():
    message = "The job's driver did not answer."
    raise DriverUnreachableError(message)


def test_of_a_running_job(job):
    view, found = job.read()
    assert view.is_up
    assert [task.name for task in view.tasks] == ["count -> print"]
    assert (found["numRestarts"], found["uptime"], found["downtime"]) == (2, 5000, 0)
    assert (found["runningTime"], found["restartingTime"]) == (5000, 0)
    assert (found["totalNumberOfCheckpoints"], found["numberOfCompletedCheckpoints"]) == (1, 1)
    assert (found["lastCompletedCheckpointId"], found["lastCheckpointDuration"]) == (1, 110)
    assert (found["lastCheckpointSize"], found["lastCheckpointFullSize"]) == (3 * 9330, 3 * 5 * 9330)
    assert found["lastCheckpointExternalPath"] == "file:/ckpt/chk-1"
    assert found["lastCheckpointRestoreTimestamp"] == -1
    assert found["lastEpochDuration"] == 340


def test_before_the_first_checkpoint_there_are_flinks_words_for_nothing(job):
    job.statistics = Statistics().tracker
    _, found = job.read()
    assert {found[name] for name in found if name.startswith("lastC") and not name.endswith("Path")} == {-1}
    assert found["lastCheckpointExternalPath"] == "n/a"


def test_a_savepoint_counts_as_the_last_checkpoint_where_it_is_the_last(job):
    job.statistics = Statistics().run(1).run(2, savepoint=True).tracker
    assert job.read()[1]["lastCheckpointExternalPath"] == "file:/sp/savepoint-2"


def test_an_answer_is_good_for_a_second(job):
    job.read()
    job.seconds = 0.9
    job.read()
    assert job.calls == 1
    job.seconds = 1.0
    job.read()
    assert job.calls == 2


def test_a_driver_that_hangs_is_down_and_only_asked_again_after_a_while(job):
    job.driver = hangs
    view, found = job.read()
    assert not view.is_up
    assert view.tasks == []
    assert found["numRestarts"] == 2
    assert found["lastCompletedCheckpointId"] == 2  # what stands in the file
    job.seconds = 4.9
    job.read()
    assert job.calls == 1
    job.driver = metrics_answer
    job.seconds = 5.0
    assert job.read()[0].is_up


def test_of_many_who_ask_at_once_one_asks_for_all(job):
    asked, go_on = threading.Event(), threading.Event()

    def slow():
        asked.set()
        go_on.wait(LONGEST_S)
        return metrics_answer()

    job.driver = slow
    views = []
    threads = [threading.Thread(target=lambda: views.append(job.metrics.current())) for _ in range(8)]
    for thread in threads:
        thread.start()
    assert asked.wait(LONGEST_S)
    go_on.set()
    for thread in threads:
        thread.join(LONGEST_S)
    assert job.calls == 1
    assert [view.is_up for view in views] == [True] * 8


def test_a_driver_that_still_starts_is_up_and_has_nothing_to_tell(job):
    def starts():
        message = "The job is INITIALIZING; it can't do 'metrics' yet."
        raise ControlError(message)

    job.driver = starts
    view, _ = job.read()
    assert view.is_up
    assert view.tasks == []


def test_between_two_drivers_nobody_is_asked(job):
    job.has_no_driver = True
    job.status.update(state="RESTARTING")
    view, found = job.read()
    assert job.calls == 0
    assert not view.is_up
    assert (found["restartingTime"], found["downtime"], found["uptime"]) == (9000, 9000, 0)


def test_an_ended_job_has_no_times_any_more(job):
    job.status.update(state="FAILED")
    view, found = job.read()
    assert job.calls == 0
    assert not view.is_up
    assert (found["uptime"], found["downtime"], found["runningTime"]) == (-1, -1, 0)


def test_an_ended_job_has_what_its_driver_said_last(job):
    job.status.update(state="FINISHED")
    told = driver_metrics()
    job.kept = LastMetrics(1, told.job, told.tasks)
    view, found = job.read()
    assert job.calls == 0
    assert not view.is_up
    assert figures(view.tasks[0].subtasks[1].samples)["numRecordsIn"] == 101
    assert (found["lastEpochDuration"], found["uptime"]) == (340, -1)
    assert found["lastCompletedCheckpointId"] == 2  # of its file, which is written later


def test_an_ended_job_that_left_nothing_has_what_its_files_say(job):
    job.status.update(state="FINISHED")
    view, found = job.read()
    assert view.tasks == []
    assert found["lastCompletedCheckpointId"] == 2


@pytest.mark.parametrize("told", [None, {}, {"job": [], "checkpoints": {"counts": {}}, "tasks": []}])
def test_a_driver_of_another_version_is_up_and_the_files_say_the_rest(job, told, caplog):
    job.driver = lambda: told
    view, found = job.read()
    assert view.is_up
    assert view.tasks == []
    assert found["lastCompletedCheckpointId"] == 2
    assert "what a job's driver says of its metrics can't be read" in caplog.text


def test_who_does_not_wait_gets_what_was_known_last_while_another_one_asks(job):
    assert job.read()[0].is_up
    before = job.read()[1]
    asked, held = threading.Event(), threading.Event()

    def slow():
        asked.set()
        held.wait()
        return metrics_answer(job.statistics)

    job.driver, job.seconds = slow, 60.0
    other = threading.Thread(target=job.metrics.current)
    other.start()
    asked.wait()
    try:
        for store in (job.metrics.current(patience=0.0), job.metrics.known()):
            assert store.is_up
            assert figures(store.job) == before
        assert job.calls == 2
    finally:
        held.set()
        other.join()


def test_a_page_gets_the_last_figures_of_a_driver_that_takes_long(job):
    assert job.read()[0].is_up
    held = threading.Event()
    job.driver, job.seconds = held.wait, 60.0
    other = Job()
    plan = {"plan": [{"id": task.vertex_id, "inputs": []} for task in job.metrics.known().tasks]}
    jobs = [
        SimpleNamespace(job_id=job_id * 32, metrics=one.metrics, state=lambda: JobStatus.RUNNING, status=lambda: plan)
        for job_id, one in (("a", job), ("b", other))
    ]
    request = SimpleNamespace(dispatcher=SimpleNamespace(jobs=lambda: jobs))
    try:
        slow, quick = metric_routes._figures(request).jobs
    finally:
        held.set()
    assert slow.up
    assert quick.up
    assert slow.records_in == quick.records_in > 0
