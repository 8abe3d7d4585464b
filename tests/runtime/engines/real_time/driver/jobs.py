"""Jobs on the real-time engine with slots as processes and relays as threads: all of it but Spark."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import JobCancelledError, PystateError
from pystate.common.files.home import JobDirectory, PystateHome, new_job_id
from pystate.core.api.executor import Executor, register_executor
from pystate.datastream import StreamExecutionEnvironment
from pystate.runtime.driver.job_master import JobMaster
from pystate.runtime.engines.real_time.driver.real_time_job_engine import RealTimeJobEngine
from pystate.runtime.execution.status import JobStatusStore
from tests.runtime.driver.toy_engine import ToyResources
from tests.runtime.engines.real_time.driver.local_relays import LocalRelays
from tests.waiting import LONGEST_S, ends, wait_until


class _Taken(Executor):
    """Takes the graph of a program instead of running it."""

    def __init__(self):
        self.graph = None

    def base_configuration(self):
        return Configuration()

    def spark_session(self, configuration):
        raise AssertionError

    def execute(self, graph, configuration, name):
        self.graph = graph.copy()  # the program takes its own apart


def graph_of(program, options):
    taken = _Taken()
    register_executor(taken)
    try:
        environment = StreamExecutionEnvironment.get_execution_environment(Configuration(options))
        program(environment)
        environment.execute("job")
    finally:
        register_executor(None)
    return taken.graph


class Relays:
    """The relays of each attempt, the latest last.

    Args:
        directly: Whether slots send each other their frames without them.
    """

    def __init__(self, *, directly=False):
        self.directly = directly
        self.made = []
        self.lose = set()
        self.repeat = set()

    def __call__(self, directory, name, scratch):
        made = LocalRelays(directory, name, scratch)
        made.lose, made.repeat = self.lose, self.repeat
        self.lose, self.repeat = set(), set()
        self.made.append(made)
        return made


class RealTimeJob:
    def __init__(self, folder, program, parallelism=2, relays=None, spark=None, **options):
        folder.mkdir()
        self.lines = []
        self.said = []
        self.error = None
        settings = {
            "execution.engine": "real-time",
            "execution.checkpointing.dir": str(folder.parent / "ck"),
            "execution.checkpointing.savepoint-dir": str(folder.parent / "sp"),
            "execution.checkpointing.interval": "100 ms",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "5",
            "restart-strategy.fixed-delay.delay": "0 s",
            "parallelism.default": str(parallelism),
            **options,
        }
        settings = {key: value for key, value in settings.items() if value is not None}
        directory = JobDirectory(folder)
        self.status = JobStatusStore(directory, "job")
        self.relays = Relays() if relays is None else relays
        self.job_id = new_job_id()  # its own: slots remove what earlier attempts of their job have left, also another test's
        self.master = JobMaster(
            self.job_id,
            "job",
            graph_of(program, settings),
            Configuration(settings),
            ToyResources(),
            lambda context: RealTimeJobEngine(context, spark, self.relays, directly=self.relays.directly),
            directory,
            self.status,
            home=PystateHome(folder.parent / "home"),
            job_runs=lambda _: None,
            say=self.said.append,
        )
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        try:
            with contextlib.suppress(JobCancelledError):
                self.master.run()
        except PystateError as error:
            self.error = error

    @property
    def coordinator(self):
        return self.master.coordinator

    def completed(self):
        return self.coordinator.statistics()["counts"]["completed"]

    def await_checkpoints(self, more=1):
        count = self.completed() + more
        wait_until(lambda: self.error is not None or self.completed() >= count)
        assert self.error is None, self.error

    def await_attempt(self, number):
        wait_until(lambda: self.error is not None or len(self.relays.made) > number)
        assert self.error is None, self.error

    def kill_slot(self, index=0):
        os.kill(self.master.slot_pids[index], signal.SIGKILL)

    def savepoint(self, **how):
        future = self.master.savepoint(None, **{"stop": False, "cancel": False, **how})
        wait_until(future.done)
        return future.result().path

    def end(self):
        assert ends(self.thread), self.said
        if self.error is not None:
            raise self.error
        return self.status.state

    def close(self):
        self.master.cancel()
        self.thread.join(LONGEST_S)


def printed_pairs(text):
    """Return the numbers of printed pairs, `(key,count)`."""
    return [(int(key), int(count)) for key, count in re.findall(r"\((-?\d+),(\d+)\)", text)]
