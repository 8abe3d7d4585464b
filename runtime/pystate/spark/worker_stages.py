"""The stages of sources as they live in Spark's Python workers: made and opened once per worker and execution attempt.

Spark hands each of its tasks to any idle worker, and each reads anew from a pickle what the task runs. What a function
acquires in `open()`, a client or a model, must not come and go with every epoch and partition. So the stage is pickled apart
from what it travels with, and a worker that has it open doesn't read it again.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.accumulators import _accumulatorRegistry
from pyspark.serializers import CloudPickleSerializer

from pystate.spark.source_metrics import StageReport
from pystate.spark.source_stage import SourceStage, SourceStageSpec

CLOSE_SECONDS = 10
"""How long the functions of a worker that ends may take to close."""

_PICKLER: Any = CloudPickleSerializer()  # type: ignore[no-untyped-call]
_REUSE = "SPARK_REUSE_WORKER"
_DEADLY = (signal.SIGHUP, signal.SIGTERM)


class ShippedStage:
    """A stage on its way to Spark's workers.

    Args:
        spec: What it runs.
    """

    def __init__(self, spec: SourceStageSpec) -> None:
        self._spec = spec

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Pickle the stage as bytes, which are read once per worker."""
        data = _PICKLER.dumps(self._spec)
        environment = self._spec.environment
        return _ReceivedStage, ((environment.job_id, environment.attempt), data)

    def run(self, partition: int, batches: Iterator[pa.RecordBatch], report: StageReport | None) -> Iterator[pa.RecordBatch]:
        """Run a stage that has not travelled: its functions live as long as the partition."""
        stage = SourceStage(self._spec)
        stage.open(partition)
        try:
            yield from stage.run(partition, batches, report)
        finally:
            stage.close()


class _ReceivedStage:
    """A stage that has come to a worker; not read yet."""

    def __init__(self, attempt: tuple[str, int], data: bytes) -> None:
        self._attempt = attempt
        self._data = data

    def run(self, partition: int, batches: Iterator[pa.RecordBatch], report: StageReport | None) -> Iterator[pa.RecordBatch]:
        """Run the stage with the functions that this worker has open; else open them.

        What has failed, or was given up half way, is closed and not used again.
        """
        stages = WORKER.stages
        WORKER.begin_task(self._attempt)
        digest = hashlib.sha256(self._data).hexdigest()
        kept = stages.pop(digest, None) or _KeptStage(self._attempt, self._data)
        done = False
        try:
            kept.begin_task(partition)
            yield from kept.stage.run(partition, batches, report)
            done = WORKER.is_reused
        finally:
            if done:
                stages[digest] = kept
                WORKER.end_task()
            else:
                kept.stage.close()


class _KeptStage:
    """A stage with its open functions, and with the accumulators of Spark's that these hold."""

    def __init__(self, attempt: tuple[str, int], data: bytes) -> None:
        self.attempt = attempt
        known = set(_accumulatorRegistry)
        self.stage = SourceStage(_PICKLER.loads(data))
        self._accumulators = {number: found for number, found in _accumulatorRegistry.items() if number not in known}
        self._is_open = False

    def begin_task(self, partition: int) -> None:
        """Open the functions if they aren't, and let Spark know of their accumulators: it forgets them between two tasks."""
        if not self._is_open:
            self._is_open = True
            self.stage.open(partition)
            return
        for number, accumulator in self._accumulators.items():
            accumulator._value = accumulator.accum_param.zero(accumulator._value)  # noqa: SLF001 - as if it had come anew
            _accumulatorRegistry[number] = accumulator


class _Worker:
    """This process, as far as it keeps stages.

    Attributes:
        stages: What is open between two tasks, by digest.
    """

    def __init__(self) -> None:
        self.stages: dict[str, _KeptStage] = {}
        self._watches_exit = False
        self._process = 0
        self._set_handler = signal.signal
        self._leave: Callable[[int], Any] = os._exit

    @property
    def is_reused(self) -> bool:
        """Whether Spark gives this worker another task behind this one."""
        return bool(os.environ.get(_REUSE))

    def begin_task(self, attempt: tuple[str, int]) -> None:
        """Close what other execution attempts have left open, and be again a worker that dies when Spark says so."""
        self._heed_hang_up(heed=True)
        for digest, kept in list(self.stages.items()):
            if kept.attempt != attempt:
                del self.stages[digest]
                _close(kept)

    def become_slot(self) -> None:
        """Close everything: this process does something else from now on."""
        while self.stages:
            _close(self.stages.popitem()[1])
        self._heed_hang_up(heed=True)

    def end_task(self) -> None:
        """See to it that what is open is closed when the worker ends.

        Spark's daemon ends its workers with `os._exit`, which runs no exit handlers, when their connection to Spark closes.
        At the same moment it sends them SIGHUP, which would be faster; so that counts for nothing while the worker is idle.
        """
        if not self._watches_exit:
            self._watches_exit = True
            self._process = os.getpid()
            signal.signal = self._set_unless_idle  # type: ignore[assignment]
            atexit.register(self.close)
        if os._exit != self._close_and_leave:  # a slot that this process has been meanwhile puts back what it knew
            self._leave = os._exit
            os._exit = self._close_and_leave  # type: ignore[assignment]
        self._heed_hang_up(heed=False)

    def close(self) -> None:
        """Close everything; the process ends where that takes too long."""
        if not self.stages or os.getpid() != self._process:  # a child that functions have forked has nothing to close
            return
        if _in_main_thread():  # as it is in Spark's workers
            for number in _DEADLY:
                signal.signal(number, signal.SIG_IGN)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(CLOSE_SECONDS)
        while self.stages:
            _close(self.stages.popitem()[1])

    def _close_and_leave(self, status: int) -> None:
        self.close()
        self._leave(status)

    def _set_unless_idle(self, number: int, handler: Any) -> Any:
        # Spark's worker makes SIGHUP deadly whenever it begins to wait for a task
        if number == signal.SIGHUP and handler is signal.SIG_DFL and self.stages:
            handler = signal.SIG_IGN
        return self._set_handler(number, handler)

    def _heed_hang_up(self, *, heed: bool) -> None:
        if self._watches_exit and _in_main_thread():
            self._set_handler(signal.SIGHUP, signal.SIG_DFL if heed else signal.SIG_IGN)


WORKER = _Worker()


def become_slot() -> None:
    """Take this process from Spark's Python workers: a slot ends when it is told to, and keeps nothing of before."""
    WORKER.become_slot()


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _close(kept: _KeptStage) -> None:
    try:
        kept.stage.close()
    except Exception:  # nobody waits for it any more
        traceback.print_exc(file=sys.stderr)
