"""The Spark job whose tasks are the slots."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from pystate.runtime.slot.process import SlotDescription, run_slot
from pystate.runtime.slot.slot_engine import SlotEngineFactory
from pystate.runtime.spark.applications.executor_check import reason_of_end
from pystate.runtime.spark.applications.lost_slot import SlotPlace, place_of_slot
from pystate.runtime.spark.workers.python_worker import become_slot

if TYPE_CHECKING:
    from pyspark import SparkContext


class SlotJob:
    """A Spark job of `parallelism` tasks, each a slot, in its own job group.

    Args:
        context: The Spark application.
        description: The description that each slot is started with.
        engine: The factory of the engine's part in each slot.
        parallelism: The number of slots.
        on_end: Called from another thread when Spark ends the job, with the reason (None if it ended normally).
    """

    def __init__(
        self,
        context: SparkContext,
        description: SlotDescription,
        engine: SlotEngineFactory,
        parallelism: int,
        on_end: Callable[[str | None], None],
    ) -> None:
        self._context = context
        self._description = description
        self._engine = engine
        self._parallelism = parallelism
        self._on_end = on_end
        self.group = f"pystate-slots-{description.job_id}-{description.attempt}"
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Submit the job."""
        from pyspark import InheritableThread

        thread: threading.Thread = InheritableThread(target=self._run, name="slot-job", daemon=True)
        self._thread = thread
        thread.start()

    def place_of(self, slot: int, patience_s: float) -> SlotPlace | None:
        """Return where a slot ran and why it is gone, see `place_of_slot`."""
        return place_of_slot(self._context, self.group, slot, patience_s)

    def cancel(self, timeout_s: float) -> bool:
        """Cancel the job if it hasn't ended within `timeout_s`; return whether it ended by itself."""
        if self._thread is None:
            return True
        self._thread.join(timeout_s)
        if not self._thread.is_alive():
            return True
        with contextlib.suppress(Exception):  # Spark may be gone: py4j has several ways to say so
            self._context.cancelJobGroup(self.group)
        self._thread.join(timeout_s)
        return False

    def _run(self) -> None:
        description, engine = self._description, self._engine

        def slot(index: int, _: Iterable[int]) -> Iterable[Any]:
            become_slot()
            run_slot(description, engine, index)
            return iter(())

        try:
            self._context.setJobGroup(self.group, f"slots of attempt {description.attempt}", interruptOnCancel=True)
            slots = self._context.parallelize(range(self._parallelism), self._parallelism)
            slots.mapPartitionsWithIndex(slot).count()
        except Exception as error:  # Spark reports a lost slot, a cancelled job and a stopped context in many ways
            self._on_end(reason_of_end(str(error)))
        else:
            self._on_end(None)
