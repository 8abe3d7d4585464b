"""Goes from the beginning of an epoch, as a job has kept it, to what a function failed at: a record or a timer."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pystate.common.errors import UsageError
from pystate.common.user_code.user_errors import error_sentence
from pystate.core.api.timer_service import TimeDomain
from pystate.runtime.job_folder.failing_record import FailingRecord, KeptStep, StepKind
from pystate.runtime.slot.event_time.chain_time import MIN_WATERMARK
from pystate.testing.program import Program
from pystate.testing.program_harness import ProgramHarness


@dataclass(frozen=True)
class RecordCall:
    """A record is processed.

    Attributes:
        element: The record.
        timestamp: Its timestamp, ms since 1970; None for none.
        input_number: The number of the input, from 1.
    """

    element: Any
    timestamp: int | None
    input_number: int

    def on(self, harness: ProgramHarness) -> None:
        """Process it."""
        harness.process(self.element, self.timestamp, input_number=self.input_number)
        harness.extract_output()


@dataclass(frozen=True)
class TimerCall:
    """The timers of a time fire.

    Attributes:
        domain: Their time domain.
        time: Their time, ms since 1970.
        limit: The watermark, or the clock, by which they are due.
    """

    domain: TimeDomain
    time: int
    limit: int

    def on(self, harness: ProgramHarness) -> None:
        """Fire them."""
        harness.fire(self.domain, self.time)
        harness.extract_output()


Call = RecordCall | TimerCall


def due_timers(harness: ProgramHarness, domain: TimeDomain, limit: int) -> Iterator[TimerCall]:
    """Yield the times at which timers are due, one after the other; each fires before the next is asked for."""
    while (time := harness.next_timer(domain)) is not None and time <= limit:
        yield TimerCall(domain, time, limit)


def advance(harness: ProgramHarness, domain: TimeDomain, time: int) -> Iterator[TimerCall]:
    """Advance event time, or the clock, and yield what is due."""
    if domain is TimeDomain.EVENT_TIME:
        rise(harness, time)
    else:
        harness.set_clock(time)
    yield from due_timers(harness, domain, time)


def rise(harness: ProgramHarness, watermark: int) -> None:
    """Advance the event time of all inputs without firing timers yet."""
    for number in range(1, harness.num_inputs + 1):
        harness.rise(watermark, input_number=number)


class FailedRecords:
    """What an operator was given in an epoch up to what a function failed at, and the state before that.

    Args:
        program: The job's program, as it is now.
        failed: What the job has kept.
        savepoint: A snapshot, to take the state from it instead; None for the kept one.
        note: Called with what is to be said of the replay.
    """

    def __init__(self, program: Program, failed: FailingRecord, savepoint: str | None, note: Callable[[str], None]) -> None:
        self._program = program
        self._failed = failed
        self._savepoint = savepoint
        self._note = note
        self._count = 0

    def find(self) -> None:
        """Look for the first record or timer at which the function raises; it is the last one if none does."""
        failed = self._failed
        if not failed.whole:
            self._note("the epoch had more records before, which were not kept: the state may be another one")
        if failed.key is not None and failed.state is None and self._savepoint is None:
            why = f"could not be kept, of {failed.lost}" if failed.lost else "was too large to be kept"
            self._note(f"the state of the key {why}: -s takes it from a snapshot")
        with self._harness() as harness:
            if self._savepoint is None and harness.has_operator_state:
                self._note("list state of the operator isn't kept, and is empty here: -s takes it from a snapshot")
            for number, call in enumerate(self._calls(harness)):
                if self._is_like(call):
                    self._count = number
                try:
                    call.on(harness)
                except Exception as error:
                    self._count = number
                    raised = error_sentence(error)
                    if raised.partition(":")[0] != failed.error.partition(":")[0]:
                        self._note("the function raises something else now than in the job")
                    return
        self._note("the operator takes all of its records now: it is mended, or one chained after it has failed")

    def _is_like(self, call: Call) -> bool:
        """Return whether a call is of the kind that has failed in the job, for one at which nothing fails now."""
        if isinstance(call, RecordCall):
            return self._failed.timer is None
        return self._failed.timer == (call.domain.name, call.time)

    def harness_before(self) -> tuple[ProgramHarness, Call]:
        """Return a harness that has done what came before the call at fault, and that call."""
        harness = self._harness()
        for number, call in enumerate(self._calls(harness)):
            if number == self._count:
                return harness, call
            call.on(harness)
        message = "What was kept has neither a record nor a timer of the key."
        raise UsageError(message)

    def _calls(self, harness: ProgramHarness) -> Iterator[Call]:
        """Yield the calls, with new copies of the records: a function may have changed those of the last time."""
        for step in self._failed.steps:
            harness.set_clock(step.clock)
            if step.kind is StepKind.ROWS:
                yield from self._records(harness, step)
            elif step.kind is StepKind.WATERMARK:
                watermark = harness.rise(step.time, input_number=step.input + 1)
                if watermark is not None:
                    yield from due_timers(harness, TimeDomain.EVENT_TIME, watermark)
            else:
                yield from due_timers(harness, TimeDomain.PROCESSING_TIME, step.time)

    def _records(self, harness: ProgramHarness, step: KeptStep) -> Iterator[RecordCall]:
        for batch in pa.ipc.open_stream(step.rows):
            for element, timestamp in harness.elements(batch, step.input):
                yield RecordCall(element, timestamp, step.input + 1)

    def _harness(self) -> ProgramHarness:
        failed = self._failed
        share = (failed.subtask, failed.parallelism, failed.max_parallelism)
        state = failed.state if self._savepoint is None else None
        harness = self._program.harness(failed.uid, self._savepoint, share=share, state=state)
        if self._savepoint is None and failed.broadcast is not None:
            # while the harness is open, pickles find the program's classes
            harness.put_broadcast_state(pickle.loads(failed.broadcast))  # noqa: S301 - checked to be one's own
        if failed.watermark > MIN_WATERMARK:
            rise(harness, failed.watermark)
        return harness
