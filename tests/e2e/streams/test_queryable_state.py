"""Queryable state of real jobs."""

from __future__ import annotations

import os
import signal
import threading
from collections import defaultdict

import pytest

from pystate.common import Types
from pystate.common.errors import JobCancelledError
from pystate.datastream import (
    CheckpointedFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from pystate.datastream.functions import SourceFunction
from pystate.queryable import Consistency, KvStateRequest, QueryableStateClient, UnknownJobError
from tests.engines import on_both_engines
from tests.servers import nginx
from tests.testing.test_examples import example
from tests.waiting import LONGEST_S, wait_until

KEYS = 10


def test_the_average_of_the_example_is_read_while_the_job_runs(run_job, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("PYSTATE_HOME", str(tmp_path / "home"))
    module, found = example("queryable_average"), []
    job = run_job(lambda: found.append(module.main(nginx.free_port(), pause=0.2)))
    job.result()
    assert found[0][-1] == (1, 2)
    assert set(found[0]) <= {(1, 3), (1, 7), (1, 2)}
    printed = capfd.readouterr().out.splitlines()
    assert [line.partition("> ")[2] for line in printed if "> " in line] == ["(1,4)", "(1,5)"]
    assert "of checkpoint" in printed[-1]


class Numbers(SourceFunction, CheckpointedFunction):
    """Counts upwards, a few at a time, until it is cancelled."""

    def __init__(self):
        self._offset = 0
        self._cancelled = threading.Event()

    def run(self, ctx):
        while not self._cancelled.wait(0.005):
            with ctx.get_checkpoint_lock():
                for _ in range(10):
                    ctx.collect(self._offset)
                    self._offset += 1

    def cancel(self):
        self._cancelled.set()

    def initialize_state(self, context):
        self._kept = context.get_operator_state_store().get_list_state(ListStateDescriptor("offset", Types.LONG()))
        self._offset = next(iter(self._kept.get()), 0)

    def snapshot_state(self, context):
        self._kept.update([self._offset])

    def __getstate__(self):
        return {"_offset": self._offset}

    def __setstate__(self, state):
        self.__init__()


class CountAndSum(KeyedProcessFunction):
    """Two states of a key, of which one follows from the other: the k-th number of key n is n + k * KEYS."""

    def open(self, runtime_context):
        count, total = ValueStateDescriptor("count", Types.LONG()), ValueStateDescriptor("sum", Types.LONG())
        count.set_queryable("counts")
        total.set_queryable("sums")
        self._count, self._sum = runtime_context.get_state(count), runtime_context.get_state(total)

    def process_element(self, value, ctx):
        self._count.update((self._count.value() or 0) + 1)
        self._sum.update((self._sum.value() or 0) + value)
        return ()


def sum_of(key: int, count: int) -> int:
    return count * key + KEYS * (count * (count - 1) // 2)


def program():
    env = StreamExecutionEnvironment.get_execution_environment()
    numbers = env.add_source(Numbers(), "numbers", Types.LONG()).uid("numbers")
    counted = numbers.key_by(lambda number: number % KEYS, Types.LONG()).process(CountAndSum(), Types.LONG()).uid("count")
    counted.for_each_batch(lambda frame, epoch: frame.count())
    env.execute("numbers")


class Reader:
    """Asks for both states of all keys, again and again, and compares them."""

    def __init__(self, client, job_id):
        self._client = client
        self._job_id = job_id
        self._ended = threading.Event()
        self.counts = defaultdict(list)
        self.wrong = []
        self.error = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            # not all the time: the job's driver runs in this process, too
            while not self._ended.wait(0.05):
                for consistency in Consistency:
                    self._ask(consistency)
        except Exception as error:  # shown by `end`
            self.error = error

    def _ask(self, consistency):
        requests = [KvStateRequest(name, key) for key in range(KEYS) for name in ("counts", "sums")]
        found = self._client.get_kv_states(self._job_id, requests, consistency=consistency).result()
        total = 0
        for key in range(KEYS):
            count, amount = found[2 * key : 2 * key + 2]
            if count is None or amount is None:
                if count is not amount:
                    self.wrong.append((consistency, key, count, amount))
                continue
            if amount.value() != sum_of(key, count.value()) or count.version.epoch != amount.version.epoch:
                self.wrong.append((consistency, key, count, amount))
            total += count.value()
        self.counts[consistency].append(total)

    def progress(self, consistency):
        """Wait until answers show more than now."""
        seen = len(self.counts[consistency])
        before = max(self.counts[consistency], default=0)
        wait_until(lambda: self.error or max(self.counts[consistency][seen:], default=0) > before)

    def end(self):
        self._ended.set()
        self._thread.join(LONGEST_S)
        assert self.error is None, self.error
        assert self.wrong == []


@on_both_engines
@pytest.mark.slow
def test_two_states_of_a_key_agree_in_every_answer_over_a_killed_slot_another_parallelism_and_backend(run_job, tmp_path):
    port = nginx.free_port()
    options = {
        "queryable-state.enable": "true",
        "queryable-state.proxy.ports": str(port),
        "queryable-state.server.ports": str(nginx.free_port()),
        "execution.checkpointing.interval": "300 ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "5",
        "restart-strategy.fixed-delay.delay": "0 s",
    }
    first = run_job(program, {**options, "state.backend.type": "hashmap"})
    job_id = first.job_id
    first.wait_running()
    token = (tmp_path / "home" / "token").read_text().strip()
    with QueryableStateClient("127.0.0.1", port, token=token, timeout=LONGEST_S) as client:
        reader = Reader(client, job_id)
        reader.progress(Consistency.LIVE)
        reader.progress(Consistency.CHECKPOINTED)
        os.kill(first.master.slot_pids[1], signal.SIGKILL)
        first.wait_for(lambda: first.status["attempt"] == 1)
        for consistency in Consistency:
            reader.progress(consistency)
        reader.end()
        assert reader.counts[Consistency.CHECKPOINTED] == sorted(reader.counts[Consistency.CHECKPOINTED])
        path = first.savepoint(tmp_path / "savepoints", stop=True)
        first.result()

        second = run_job(
            program,
            {
                **options,
                "state.backend.type": "rocksdb",
                "parallelism.default": "3",
                "execution.state-recovery.path": path,
            },
        )
        second.wait_running()
        with pytest.raises(UnknownJobError):  # the client that knew the first job
            client.get_kv_state(job_id, "counts", 1).result()
        resumed = Reader(client, second.job_id)
        for consistency in Consistency:
            resumed.progress(consistency)
        os.kill(second.master.slot_pids[2], signal.SIGKILL)
        second.wait_for(lambda: second.status["attempt"] == 1)
        for consistency in Consistency:
            resumed.progress(consistency)
        resumed.end()
    checkpointed = reader.counts[Consistency.CHECKPOINTED] + resumed.counts[Consistency.CHECKPOINTED]
    assert checkpointed == sorted(checkpointed)
    second.cancel()
    with pytest.raises(JobCancelledError):
        second.result()
