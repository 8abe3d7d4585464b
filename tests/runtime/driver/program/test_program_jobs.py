from __future__ import annotations

import multiprocessing
import signal
import threading
from concurrent.futures import Future

import pytest

from pystate.common.configuration.file_system_settings import FileSystemSettings
from pystate.common.errors import JobCancelledError, JobExecutionError, JobTerminatedError
from pystate.common.job_status import JobStatus
from pystate.core.api.collected_results import ResultQueue
from pystate.runtime.driver.program_jobs import ProgramJob, ProgramJobs, Share
from tests.waiting import LONGEST_S, wait_until


class Checkpoint:
    path = "file:/savepoints/savepoint-1"


class Master:
    """Runs until it is told to end."""

    def __init__(self, log, name):
        self.log = log
        self.name = name
        self.told = threading.Event()
        self.error = None
        self.asked = []

    def run(self):
        self.log.append(f"{self.name} begins")
        self.told.wait()
        self.log.append(f"{self.name} ends")
        if self.error is not None:
            raise self.error
        return 7

    def cancel(self):
        self.error = JobCancelledError("The job was cancelled.")
        self.told.set()

    def savepoint(self, directory, **options):
        self.asked.append((directory, options))
        future = Future()
        future.set_result(Checkpoint())
        return future


class Status:
    state = JobStatus.RUNNING

    def update(self, state):
        self.state = state


@pytest.fixture
def log():
    return []


@pytest.fixture
def job(log):
    def made(name="a", results=None, share=None):
        return ProgramJob(name * 32, Master(log, name), Status(), results, share)

    return made


def share(cores, of=8, **storage):
    return Share(cores, of, FileSystemSettings(**storage))


def test_jobs_with_room_beside_each_other_run_at_the_same_time_and_others_wait(job, log):
    jobs, first, second, third = ProgramJobs(), job("a", None, share(4)), job("b", None, share(4)), job("c", None, share(4))
    for one in (first, second, third):
        jobs.start(one)
    wait_until(lambda: len(log) == 2)
    assert sorted(log) == ["a begins", "b begins"]
    second._master.told.set()
    third._master.told.set()
    third.get_job_execution_result().result()
    assert log[2:] == ["b ends", "c begins", "c ends"]
    first._master.told.set()
    first.get_job_execution_result().result()


@pytest.mark.parametrize(
    ("own", "other"),
    [(None, share(1)), (share(1), None), (share(5), share(4)), (share(1), share(1, umask=0o007))],
    ids=["runs alone", "beside one alone", "too few cores", "another storage"],
)
def test_a_job_waits_where_there_is_no_room_for_it(job, own, other):
    running = job("a", None, other)
    assert job("b", None, own).waits_for([running]) == [running]
    running._master.told.set()
    running.run()
    assert job("b", None, own).waits_for([running]) == []


def test_jobs_in_the_background_run_one_after_the_other(job, log):
    jobs, first, second = ProgramJobs(), job("a"), job("b")
    jobs.start(first)
    jobs.start(second)
    second._master.told.set()
    first._master.told.set()

    assert second.get_job_execution_result().result().get_job_id() == "b" * 32
    assert log == ["a begins", "a ends", "b begins", "b ends"]
    assert first.get_job_execution_result().result().get_net_runtime() == 7


def test_an_interrupt_of_the_program_cancels_its_job_and_waits_for_its_end(job, log, capsys):
    """Ctrl-C, and a notebook's button: the signal comes while the program waits."""
    jobs, running = ProgramJobs(), job("a")
    begin = running._master.run

    def interrupt():
        wait_until(lambda: log)
        signal.raise_signal(signal.SIGINT)

    def interrupted():
        threading.Thread(target=interrupt).start()
        return begin()

    running._master.run = interrupted
    with pytest.raises(KeyboardInterrupt):
        jobs.run(running)

    assert log == ["a begins", "a ends"]
    assert running.has_ended
    with pytest.raises(JobCancelledError):
        running.wait()
    assert "is cancelled" in capsys.readouterr().err


def test_an_interrupt_before_a_jobs_turn_waits_for_no_other_job(job, log):
    jobs, first, second = ProgramJobs(), job("a"), job("b")
    jobs.start(first)
    waits = second.wait

    def interrupted():
        second.wait = waits
        raise KeyboardInterrupt

    second.wait = interrupted
    with pytest.raises(KeyboardInterrupt):
        jobs.run(second)
    assert not first.has_ended
    with pytest.raises(JobCancelledError):
        second.wait()
    first._master.told.set()
    assert first.wait()
    assert log == ["a begins", "a ends"]


def test_a_job_that_is_cancelled_before_its_turn_ends_at_once(job, log):
    jobs, results, first = ProgramJobs(), ResultQueue(), job("a")
    second = job("b", results)
    jobs.start(first)
    jobs.start(second)
    second.cancel()

    with pytest.raises(JobCancelledError):
        results.take()
    with pytest.raises(JobCancelledError):
        second.wait()
    assert second._status.state is JobStatus.CANCELED
    assert not first.has_ended
    first._master.told.set()
    assert first.wait()


def test_a_program_hears_of_the_failure_of_the_job_that_it_waits_for_and_nobody_else_does(job, capsys):
    jobs, running = ProgramJobs(), job("a")
    running._master.error = JobExecutionError("It broke.")
    running._master.told.set()
    with pytest.raises(JobExecutionError, match=r"It broke\."):
        jobs.run(running)
    assert capsys.readouterr().err == ""


def test_the_handler_of_spark_that_ends_all_its_jobs_is_not_asked_while_a_job_runs(job):
    def of_spark(number, frame):
        raise AssertionError

    of_spark.__module__ = "pyspark.core.context"
    before = signal.signal(signal.SIGINT, of_spark)
    try:
        jobs, running = ProgramJobs(), job("a")
        seen = []
        running._master.cancel = lambda: None
        running._master.run = lambda: seen.append(signal.getsignal(signal.SIGINT)) or 7
        assert jobs.run(running).get_net_runtime() == 7
        assert seen == [signal.default_int_handler]
        assert signal.getsignal(signal.SIGINT) is of_spark
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interrupt_while_the_program_waits_for_its_jobs_at_its_end_cancels_them(job, log):
    jobs, running = ProgramJobs(), job("a")
    waits = running.wait

    def interrupted():
        running.wait = waits
        raise KeyboardInterrupt

    running.wait = interrupted
    jobs.start(running)
    jobs._at_exit()
    assert running.has_ended


def test_a_child_that_the_program_forks_ends_while_the_job_runs(job):
    """A worker of `multiprocessing` runs what is to be run when threads end, and has none of the threads of the program."""
    jobs, running = ProgramJobs(), job("a")
    jobs.outlive_program()
    jobs.start(running)
    child = multiprocessing.get_context("fork").Process(target=int, daemon=True)
    with jobs._lock:  # as another thread of the program may hold it at that moment
        child.start()
    child.join(LONGEST_S)
    ended_by_itself = child.exitcode
    child.kill()
    running._master.told.set()
    running.wait()

    assert ended_by_itself == 0


def test_a_job_of_the_programs_own_thread_begins_after_those_in_the_background(job, log, capsys):
    jobs, first = ProgramJobs(), job("a")
    jobs.start(first)
    threading.Timer(0, first._master.told.set).start()

    jobs.wait_for_turn()

    assert first.has_ended
    assert log == ["a begins", "a ends"]


def test_what_a_job_failed_of_is_its_results_error(job, capsys):
    jobs, failing = ProgramJobs(), job("a")
    failing._master.error = JobExecutionError("The slots were lost.")
    failing._master.told.set()
    jobs.start(failing)

    result = failing.get_job_execution_result()
    with pytest.raises(JobExecutionError, match="slots were lost"):
        result.result()
    assert isinstance(result.exception(), JobExecutionError)


def test_at_the_programs_end_jobs_run_on_and_those_whose_results_it_took_are_cancelled(job, log):
    jobs, read = ProgramJobs(), job("a", ResultQueue())
    jobs.start(read)

    with pytest.raises(JobCancelledError):
        jobs.wait_at_end()

    kept = job("b")
    jobs.start(kept)
    threading.Timer(0, kept._master.told.set).start()
    jobs.wait_at_end()
    assert log[-1] == "b ends"
    assert kept.get_job_execution_result().exception() is None


def test_results_end_with_their_job(job):
    queue = ResultQueue()
    done = job("a", queue)
    done._master.told.set()
    done.run()
    assert queue.take() is None

    queue = ResultQueue()
    failing = job("b", queue)
    failing._master.cancel()
    with pytest.raises(JobCancelledError):
        failing.run()
    with pytest.raises(JobCancelledError):
        queue.take()


def test_savepoints_are_those_of_the_command_line(job):
    running = job()

    assert running.trigger_savepoint("/savepoints").result() == Checkpoint.path
    assert running.stop_with_savepoint(True, "/savepoints").result() == Checkpoint.path
    assert running.stop_with_savepoint(False).result() == Checkpoint.path

    assert running._master.asked == [
        ("/savepoints", {"stop": False, "cancel": False, "drain": False}),
        ("/savepoints", {"stop": True, "cancel": False, "drain": True}),
        (None, {"stop": True, "cancel": False, "drain": False}),
    ]


def test_a_job_that_has_ended_takes_no_savepoint_and_is_cancelled_by_nobody(job):
    ended = job()
    ended._master.told.set()
    ended.run()
    ended._master.cancel = None

    ended.cancel().result()
    with pytest.raises(JobTerminatedError):
        ended.trigger_savepoint()
    assert ended.get_accumulators().result() == {}


def test_a_job_has_the_scheduler_pool_and_the_job_group_of_the_program(spark, job, log):
    context = spark.sparkContext
    one = job()
    found = []
    one._master.run = lambda: found.append(context.getLocalProperty("spark.scheduler.pool"))
    context.setLocalProperty("spark.scheduler.pool", "mine")
    try:
        ProgramJobs().start(one)
        wait_until(lambda: found)
    finally:
        context.setLocalProperty("spark.scheduler.pool", None)
    assert found == ["mine"]
