"""Faults at chosen steps of a job, as data: which step, what happens there, how often. Production code has no hooks.

    faults = Faults(tmp_path / "faults")
    job = run_job(counting(watched, sink, faults=faults))     # the function carries the faults into the slots
    faults.arm(Step.UPLOAD, Action.KILL)                      # the next slot that uploads is killed there, once
    wait_until(lambda: faults.struck(Step.UPLOAD))            # its process id

A `Faults` that comes to another process by pickle, as a field of the job's function, patches the classes of that process,
and asks at each step whether a fault is armed for it: a file in a folder that all processes see. That is why a fault can be
armed while the job runs, and why it strikes no more often than it is told to, whichever processes reach its step. Python
workers live longer than a slot: the patches stay, and do nothing once the folder is gone or holds nothing.

Steps of the driver are struck in a driver process of its own by calling `Faults.install()` in the job's program, and in the
test's process by `strike_in_driver`.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import os
import pkgutil
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from pystate.common.configuration.groups.execution_options import ExecutionEngine


class Step(Enum):
    """Where a fault can strike, in the order in which an epoch and its checkpoint pass them."""

    ELEMENT = "element"  # the job's function has got an element
    PREPARED = "prepared"  # all rows of the epoch are in; the slot is about to say so
    TOLD = "told"  # it has said so, and the exchange has not got the output
    BARRIER = "barrier"  # real-time: the subtask is about to send a barrier on
    BARRIER_SENT = "barrier-sent"  # it has gone to all that the subtask sends to, and the checkpoint isn't taken yet
    FINISH = "finish"  # Spark has ended the epoch; the slot is about to make it part of its state
    FLUSHED = "flushed"  # the epoch's changes are in the backend, and the driver doesn't know yet
    SYNC = "sync"  # the synchronous part begins
    FROZEN = "frozen"  # the synchronous part is over
    UPLOAD = "upload"  # a file of state is written, and hasn't its name yet
    ACKNOWLEDGE = "acknowledge"  # all files are there; the slot is about to say so
    ACKNOWLEDGED = "acknowledged"  # it has said so
    NOTIFY = "notify"  # a function is about to be told that a checkpoint is complete
    RESTORE = "restore"  # state is about to be restored, and functions to be opened
    COMMIT = "commit"  # a sink is about to commit what a checkpoint holds, or the one that the job starts from
    COMMITTABLE = "committable"  # its committer is about to take the next committable: it is in the middle of them
    COMMITTED = "committed"  # it is visible, and nobody knows yet
    METADATA = "metadata"  # the driver is about to write `_metadata`
    METADATA_WRITTEN = "metadata-written"  # it is written, and nobody knows yet
    TELL = "tell"  # the driver is about to notify the slots
    # calls of a `faulty://` filesystem, see `faulty_storage`
    MAKE_DIRECTORY = "make-directory"
    WRITE = "write"
    SYNC_FILE = "sync-file"
    RENAME = "rename"
    DELETE = "delete"
    LIST = "list"
    LOOK = "look"


class Action(Enum):
    """What happens at the step."""

    FAIL = "fail"  # an OSError
    KILL = "kill"  # the process is killed with SIGKILL
    STOP = "stop"  # the process is stopped with SIGSTOP
    FULL = "full"  # a file that is opened takes no more than `amount` bytes: the disk is full
    TORN = "torn"  # such a file drops what is beyond, in silence
    SLOW = "slow"  # each write to such a file takes `amount` ms longer


@dataclass(frozen=True)
class Fault:
    """What strikes.

    Attributes:
        amount: See the action.
    """

    action: Action
    amount: int


@dataclass(frozen=True)
class _Point:
    """The method at which a step is."""

    owner: str
    method: str
    after: bool = False  # before the call, or after it


_IN_SLOTS = {
    Step.PREPARED: _Point(
        "pystate.runtime.engines.micro_batch.slot.micro_batch_slot_engine:DriverEpochGateway", "epoch_prepared"
    ),
    Step.TOLD: _Point(
        "pystate.runtime.engines.micro_batch.slot.micro_batch_slot_engine:DriverEpochGateway", "epoch_prepared", after=True
    ),
    Step.BARRIER: _Point("pystate.runtime.engines.real_time.slot.output.subtask_output:SubtaskOutput", "barrier"),
    Step.BARRIER_SENT: _Point(
        "pystate.runtime.engines.real_time.slot.output.subtask_output:SubtaskOutput", "barrier", after=True
    ),
    Step.FINISH: _Point("pystate.runtime.slot.chain.operator_chain:OperatorChain", "finish_epoch"),
    Step.FLUSHED: _Point("pystate.runtime.slot.chain.operator_chain:OperatorChain", "finish_epoch", after=True),
    Step.SYNC: _Point("pystate.runtime.slot.chain.operator_chain:OperatorChain", "on_barrier"),
    Step.FROZEN: _Point("pystate.runtime.slot.chain.operator_chain:OperatorChain", "on_barrier", after=True),
    Step.UPLOAD: _Point("pystate.core.file_systems.file_stores:LocalStore", "close"),
    Step.ACKNOWLEDGE: _Point("pystate.runtime.slot.gateway:CoordinatorGateway", "acknowledge"),
    Step.ACKNOWLEDGED: _Point("pystate.runtime.slot.gateway:CoordinatorGateway", "acknowledge_all", after=True),
    Step.NOTIFY: _Point("pystate.runtime.slot.chain.operator_chain:OperatorChain", "notify_checkpoint_complete"),
    Step.RESTORE: _Point("pystate.runtime.slot.snapshots.keyed_snapshots:KeyedSnapshots", "restore"),
}
_IN_SINKS = {
    Step.COMMIT: _Point("pystate.connectors.operators.committables:Committables", "commit"),
    Step.COMMITTABLE: _Point("pystate.connectors.operators.committables:_Request", "get_committable"),
    Step.COMMITTED: _Point("pystate.connectors.operators.committables:Committables", "commit", after=True),
}
_IN_DRIVERS = {
    Step.METADATA: _Point("pystate.core.snapshot.storage.snapshot_location:SnapshotLocation", "write_metadata"),
    Step.METADATA_WRITTEN: _Point(
        "pystate.core.snapshot.storage.snapshot_location:SnapshotLocation", "write_metadata", after=True
    ),
    Step.TELL: _Point("pystate.runtime.execution.slots.slot_pool:SlotPool", "notify"),
}
POINTS = {**_IN_SLOTS, **_IN_SINKS, **_IN_DRIVERS}
_OF_MICRO_BATCH = (Step.PREPARED, Step.TOLD)
_OF_REAL_TIME = (Step.BARRIER, Step.BARRIER_SENT)
IN_SLOTS = {
    ExecutionEngine.MICRO_BATCH.value: tuple(step for step in _IN_SLOTS if step not in _OF_REAL_TIME),
    ExecutionEngine.REAL_TIME.value: tuple(step for step in _IN_SLOTS if step not in _OF_MICRO_BATCH),
}
"""By engine."""
IN_SINKS = tuple(_IN_SINKS)
IN_DRIVERS = tuple(_IN_DRIVERS)


class Faults:
    """Faults that strike whichever process of the job comes to their step first.

    Args:
        folder: Where they and their strikes are kept; made here.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._maker = os.getpid()
        folder.mkdir(parents=True, exist_ok=True)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if os.getpid() != self._maker:
            self.install()

    def arm(self, step: Step, action: Action, *, after: int = 0, times: int = 1, amount: int = 0) -> None:
        """Let the step strike.

        Args:
            step: Where.
            action: How.
            after: How often the step is passed unhurt before.
            times: How often it strikes then; once spent, the step is harmless.
            amount: See the action.
        """
        self.disarm(step)
        part = self.folder / f"{step.value}.part"
        part.write_text(json.dumps({"action": action.value, "after": after, "times": times, "amount": amount}))
        part.rename(self._fault(step))

    def disarm(self, step: Step | None = None) -> None:
        """Make a step harmless; without one, all."""
        for one in Step if step is None else [step]:
            self._fault(one).unlink(missing_ok=True)
            shutil.rmtree(self._passes(one), ignore_errors=True)

    def struck(self, step: Step) -> list[int]:
        """Return the ids of the processes that the step has struck, in order."""
        found = []
        for path in sorted(self._passes(step).glob("*-strike"), key=lambda path: int(path.name.split("-")[0])):
            text = path.read_text()
            found += [int(text)] if text else []
        return found

    def reached(self, step: Step) -> None:
        """Be struck, if it is this process's turn; called at the step.

        Raises:
            OSError: The fault, where it is `Action.FAIL`.
        """
        fault = self.claim(step)
        if fault is not None:
            _strike(step, fault.action)

    def claim(self, step: Step) -> Fault | None:
        """Pass the step; return what strikes this process there, None for nothing."""
        if self._fault(step).exists():
            with contextlib.suppress(FileNotFoundError):  # it was disarmed at this moment
                fault = json.loads(self._fault(step).read_text())
                if self._claims_strike(step, fault["after"], fault["times"]):
                    return Fault(Action(fault["action"]), fault["amount"])
        return None

    def install(self) -> None:
        """Make all steps of slots and drivers ask in this process."""
        import tests.faults.faulty_storage  # noqa: F401 - makes its filesystem known

        global _current
        patched, _current = _current is not None, self
        if not patched:
            for step, point in POINTS.items():
                owner = pkgutil.resolve_name(point.owner)
                setattr(owner, point.method, _patched(step, point, getattr(owner, point.method), _reached_in_process))

    def _claims_strike(self, step: Step, after: int, times: int) -> bool:
        """Take the next free number among those who pass the step; return whether it is one that is struck."""
        passes = self._passes(step)
        passes.mkdir(exist_ok=True)
        for number in range(len(os.listdir(passes)), after + times):
            name = f"{number}-strike" if number >= after else f"{number}-pass"
            try:
                descriptor = os.open(passes / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            except FileExistsError:
                continue
            os.write(descriptor, str(os.getpid()).encode())
            os.close(descriptor)
            return number >= after
        return False

    def _fault(self, step: Step) -> Path:
        return self.folder / f"{step.value}.json"

    def _passes(self, step: Step) -> Path:
        return self.folder / f"{step.value}.passes"


_current: Faults | None = None


def _reached_in_process(step: Step) -> None:
    if _current is not None:
        _current.reached(step)


def _strike(step: Step, action: Action) -> None:
    if action is Action.FAIL:
        raise OSError(errno.EIO, f"injected at {step.value}")
    os.kill(os.getpid(), signal.SIGKILL if action is Action.KILL else signal.SIGSTOP)


def _patched(step: Step, point: _Point, method: Callable[..., Any], reached: Callable[[Step], object]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*args: Any, **options: Any) -> Any:
        if not point.after:
            reached(step)
        value = method(*args, **options)
        if point.after:
            reached(step)
        return value

    return call


def strike_in_driver(monkeypatch: Any, step: Step, strike: Callable[[], object]) -> None:
    """Call `strike` whenever this process, which runs a job, comes to a step of the driver."""
    point = _IN_DRIVERS[step]
    owner = pkgutil.resolve_name(point.owner)
    patched = _patched(step, point, getattr(owner, point.method), lambda _: strike())
    monkeypatch.setattr(owner, point.method, patched)
