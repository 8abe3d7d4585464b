"""One Spark session for all tests of a process, and jobs that run in this process."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.files.home import PystateHome
from pystate.common.processes.machine_load import PatientDeadline
from pystate.core.api.executor import register_executor
from pystate.runtime.driver.embedded import LocalExecutor
from pystate.runtime.driver.job_master import JobMaster
from tests import forks, hypothesis_profiles, slow_selection, thorough_selection
from tests.common.files.odd_files import no_hang, no_new_files, not_regular  # noqa: F401 - fixtures
from tests.distribution import Distribution, in_order
from tests.scratch import choose_temporary_folder
from tests.servers.kafka_broker import kafka, spark_jars  # noqa: F401 - a fixture: one broker for all tests of a process
from tests.servers.storages import hdfs_cluster, kdc, s3_server, secured_hdfs  # noqa: F401 - fixtures
from tests.waiting import LONGEST_S, ends

TEST_CORES = 40
"""Enough for two times parallelism 3 and two more, and for what an ended job leaves running for a moment."""
FRAME_TASKS = 4
"""Of a DataFrame that doesn't say: with one per core, each stage of a few rows would start forty Python workers."""
FILES = pytest.StashKey[Path | None]()
"""The folder in memory that a run has for its files; of the run's first process, and only where there is one."""

SPARK_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For every JVM that Spark starts here: in the minutes it lives, the second compiler takes more time than it gains."""

hypothesis_profiles.register()


def pytest_addoption(parser):
    ci = "run the slow tests of tests/slow_in_ci.txt alone, in that order, as far as they fit into so many seconds"
    parser.addoption("--slow-in-ci", type=float, metavar="SECONDS", help=ci)
    parser.addoption("--quick", action="store_true", help="leave out the tests of tests/thorough.txt")
    seconds = "write what each test takes of the processors: the lines that tests/thorough.txt consists of"
    parser.addoption("--processor-seconds", type=Path, metavar="FILE", help=seconds)
    engine = "what runs jobs that don't say: micro-batch or real-time (default: %(default)s)"
    parser.addoption("--engine", default="micro-batch", help=engine)
    group = parser.getgroup("campaign", "the fault campaign, `python -m tests.faults.campaigns.campaign`")
    group.addoption("--campaign-kills", type=int, default=25, help="how many processes are killed (default: %(default)s)")
    group.addoption("--campaign-seed", type=int, default=1, help="seed of input, victims and pauses (default: %(default)s)")
    group.addoption("--campaign-backend", default="rocksdb", help="the state backend (default: %(default)s)")
    turns = "after how many kills each the job is stopped, and resumed at another parallelism on the other backend"
    group.addoption("--campaign-turn-every", type=int, metavar="KILLS", help=f"{turns} (default: never)")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    os.environ.setdefault("SPARK_SUBMIT_OPTS", SPARK_OPTIONS)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # shells start so what they run in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)  # processes that tests start must heed Ctrl-C
    if "forks" in getattr(config, "workerinput", {}):
        forks.use(config.workerinput["forks"])
    limit = config.getoption("--slow-in-ci")
    if limit is not None:
        config.pluginmanager.register(slow_selection.SlowSelection(limit, slow_selection.read_selection()))
    if config.getoption("--quick"):
        config.pluginmanager.register(
            thorough_selection.LeftOut(slow_selection.read_selection(thorough_selection.SELECTION))
        )
    file = config.getoption("--processor-seconds")
    if file is not None:
        config.pluginmanager.register(thorough_selection.ProcessorSeconds(file))
    files = config.stash[FILES] = choose_temporary_folder() if config.option.basetemp is None else None
    if files is not None:
        config.option.basetemp = str(files / "tests")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    if node.config.args_source is pytest.Config.ArgsSource.TESTPATHS:  # a few files might need no fork
        node.workerinput["forks"] = forks.offer()


def pytest_terminal_summary(terminalreporter, exitstatus, config):
    if config.stash[FILES] is not None and exitstatus == pytest.ExitCode.TESTS_FAILED:
        terminalreporter.write_line(f"files of the tests that failed, until the next run: {config.stash[FILES]}")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus):
    files = session.config.stash[FILES]
    if files is not None and exitstatus != pytest.ExitCode.TESTS_FAILED:
        # after multiprocessing's own finalizers: that of its folder in there (-100) needs it
        Finalize(None, shutil.rmtree, args=(files,), kwargs={"ignore_errors": True}, exitpriority=-200)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session):
    """Collect without the garbage collector, and have it leave alone what was collected: all of it stays until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config, items):
    if hasattr(config, "workerinput"):
        in_order(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return Distribution(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    from pystate.runtime.spark.sessions.real_time_settings import application_settings
    from pystate.runtime.spark.sessions.session import create_session

    log = tmp_path_factory.mktemp("spark") / "spark.log"
    local = tmp_path_factory.mktemp("local")  # its shuffle files, which tests break
    options = {"pystate.spark.master": f"local[{TEST_CORES},4]", "spark.local.dir": str(local)}
    options["spark.default.parallelism"] = str(FRAME_TASKS)
    options["spark.python.daemon.module"] = "tests.worker_daemon"
    options.update(application_settings())  # one session for jobs of both engines
    if spark_jars():
        options["spark.jars"] = ",".join(spark_jars())
    configuration = Configuration(options)
    session = create_session(configuration, "pystate tests", log)
    yield session
    session.stop()


class RunningJob(LocalExecutor):
    """A job in a thread of the test's process, with its master at hand."""

    def __init__(self, spark: Any, home: PystateHome, configuration: Configuration) -> None:
        super().__init__(configuration, home)
        self._session = spark
        self._started = threading.Event()
        self._thread: threading.Thread | None = None
        self._master: JobMaster | None = None
        self.error: BaseException | None = None

    @property
    def job_id(self) -> str:
        return self._job_id

    @property
    def master(self) -> JobMaster:
        assert self._started.wait(LONGEST_S), "the program never called execute()"
        assert self._master is not None
        return self._master

    @property
    def status(self) -> dict[str, Any]:
        return self.master._status.snapshot()

    def started(self, master: JobMaster) -> None:
        self._master = master
        self._started.set()

    def start(self, program: Callable[[], object]) -> None:
        def run() -> None:
            register_executor(self)
            try:
                program()
            except BaseException as error:
                self.error = error
            finally:
                self._started.set()

        self._thread = threading.Thread(target=run, name="job", daemon=True)
        self._thread.start()

    def wait_for(self, condition: Callable[[], object], timeout: float = LONGEST_S) -> None:
        deadline = PatientDeadline(timeout)
        while not condition():
            if self.error is not None:
                raise self.error
            assert not deadline.has_passed(), f"timed out; the job is {self.status}"
            time.sleep(0.02)

    def wait_running(self) -> None:
        self.wait_for(lambda: self.status["state"] == "RUNNING")

    def savepoint(self, target: Path, *, stop: bool = False, cancel: bool = False, timeout: float = LONGEST_S) -> str:
        return self.master.savepoint(str(target), stop=stop, cancel=cancel).result(timeout).path

    def result(self, timeout: float = LONGEST_S) -> None:
        """Wait for the end; raises what the job raised."""
        assert self._thread is not None
        assert ends(self._thread, timeout), f"the job did not end: {self.status}"
        if self.error is not None:
            raise self.error

    def cancel(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            if self._master is not None:
                self._master.cancel()
            self._thread.join(LONGEST_S)


@pytest.fixture
def engine(request) -> str:
    """What runs the jobs of a test that don't say: one of `tests/engines.py`, or that of `--engine`."""
    return str(getattr(request, "param", request.config.getoption("--engine")))


@pytest.fixture
def run_job(spark, tmp_path, engine) -> Iterator[Callable[..., RunningJob]]:
    """Start programs as jobs: `run_job(program, {"parallelism.default": "2"})`; they are cancelled after the test."""
    jobs: list[RunningJob] = []

    def start(
        program: Callable[[], object], options: dict[str, str] | None = None, *, job_id: str | None = None
    ) -> RunningJob:
        home = PystateHome(tmp_path / "home")
        defaults = {
            "parallelism.default": "2",
            "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
            "execution.checkpointing.savepoint-dir": str(tmp_path / "savepoints"),
            "execution.engine": engine,
        }
        job = RunningJob(spark, home, Configuration({**defaults, **(options or {})}))
        if job_id is not None:  # take over a job that is there already
            job._job_id = job_id
        jobs.append(job)
        job.start(program)
        return job

    yield start
    for job in jobs:
        job.cancel()
    register_executor(None)
