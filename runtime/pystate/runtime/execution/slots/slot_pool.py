"""The slots of one execution attempt, as the coordinator sees them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol, cast

from pyspark import cloudpickle

from pystate.common.configuration.option_types import ANY_PORT
from pystate.common.errors import ControlError, JobExecutionError
from pystate.common.processes.control import Address, ControlClient, ControlServer
from pystate.common.processes.length_prefixed_frames import LONGEST_FRAME
from pystate.common.processes.machine_load import PatientDeadline
from pystate.common.processes.open_files import allow_open_files
from pystate.common.processes.request_loop import RequestLoop
from pystate.runtime.execution.late_start import late_start
from pystate.runtime.execution.slots.checkpoint_notifier import CheckpointNotifier
from pystate.runtime.execution.slots.crash_output import crash_cause
from pystate.runtime.execution.slots.registered_slot import RegisteredSlot
from pystate.runtime.execution.slots.slot_gateways import SlotGateways
from pystate.runtime.execution.slots.slot_session import SlotSession
from pystate.runtime.slot.process import Deployment, SlotDescription
from pystate.runtime.spark.applications.lost_slot import SILENT

_LOOK_S = 1.0
_LAST_WORDS_S = 1.0
_DEATH_NOTICE_S = 1.0
_CONNECTIONS_OF_A_SLOT = 8
"""The connections per slot: two to it, its heartbeats, its watchdog, and those of its threads: seldom more than three."""
_FILES_BESIDE = 512


class SlotEvents(Protocol):
    """Receives calls and events of slots."""

    def handle_slot_call(self, op: str, arguments: dict[str, Any]) -> Any:
        """Answer a call of a subtask."""

    def slot_lost(self, slot: int, reason: str) -> None:
        """Handle the loss of a slot."""

    def slot_died(self, slot: int, cause: str) -> None:
        """Handle a slot's process that user code has killed."""

    def slots_hang(self, slots: list[int], call: str, timeout_s: float) -> None:
        """Handle slots that did not answer a call in time."""

    def slot_metrics(self, slot: int, report: dict[str, bytes]) -> None:
        """Process the metrics of a slot: of its subtasks by the uids of their tasks, packed."""


class SlotPool:
    """Registers the slots of an attempt, deploys to them, and detects lost slots.

    Args:
        job_id: The job.
        attempt: The execution attempt; calls with another number are refused.
        parallelism: The number of slots.
        secret: The secret for mutual authentication with slots.
        events: Receives calls and events of slots.
        host: The address to bind to, which the slots can reach.
        ports: The ports on which driver and slots may listen.
        unix_sockets: Whether slots and exchanges share a machine.
        call_timeout_s: How long the functions of a slot may take to handle a checkpoint notification.
    """

    def __init__(
        self,
        job_id: str,
        attempt: int,
        parallelism: int,
        secret: bytes,
        events: SlotEvents,
        *,
        host: str = "127.0.0.1",
        ports: range = ANY_PORT,
        unix_sockets: bool = True,
        call_timeout_s: float | None = None,
    ) -> None:
        self._attempt = attempt
        self._one_machine = unix_sockets
        self._parallelism = parallelism
        self._secret = secret
        self._events = events
        self._slots: dict[int, RegisteredSlot] = {}
        self._changed = threading.Condition()
        self._closing = False
        self._closed = False
        self._failure: str | None = None
        self._deployments: list[bytes] = []
        _have_room_for(parallelism)
        self._loop = RequestLoop(name="slot-requests", most=None, frame_bytes=LONGEST_FRAME, gives_way=False)
        self._server = ControlServer(
            secret, self._handle, host=host, ports=ports, session=lambda: SlotSession(self, self._loop)
        )
        at_once = max(4, parallelism)
        self._gateways = SlotGateways(
            self._registered, self._hang, self._check_alive, self._await_death, at_once=at_once, timeout_s=call_timeout_s
        )
        self._notifier = CheckpointNotifier(self._registered, self._hang, at_once=at_once, timeout_s=call_timeout_s)
        self.description = SlotDescription(
            coordinator=(self._server.host, self._server.port),
            secret=secret,
            job_id=job_id,
            attempt=attempt,
            unix_sockets=unix_sockets,
            ports=ports,
        )

    @property
    def pids(self) -> dict[int, int]:
        """The process id of each registered slot, by index."""
        with self._changed:
            return {index: slot.pid for index, slot in self._slots.items()}

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The slots' addresses for records, by index; all must have registered."""
        with self._changed:
            return tuple(self._slots[index].data for index in range(self._parallelism))

    @property
    def restored_bytes(self) -> int:
        """The bytes of keyed state that the slots have restored, as of their last heartbeats."""
        with self._changed:
            return sum(slot.restored for slot in self._slots.values())

    def start(self) -> None:
        """Start accepting slots."""
        self._loop.start()
        self._server.start()

    def wait_registered(
        self,
        timeout_s: float,
        look: Callable[[], object] = lambda: None,
        lack: Callable[[], str | None] = lambda: None,
    ) -> None:
        """Wait until all slots have registered.

        Args:
            timeout_s: How long the next registration may take, on a machine that is not busy.
            look: Called periodically while waiting; raises if they can't come.
            lack: Returns the resources they lack, if they aren't just slow.

        Raises:
            StartTimeoutError: Not all registered in time.
            JobExecutionError: One was lost.
        """
        deadline = PatientDeadline(timeout_s)
        while not self._wait_changed(min(_LOOK_S, timeout_s)):
            look()
            deadline.saw(len(self._slots))
            if deadline.has_passed():
                break
        with self._changed:
            if self._failure is not None:
                message = f"A slot was lost while the job started: {self._failure}"
                raise JobExecutionError(message)
            came = len(self._slots)
        if came < self._parallelism:
            message = f"{came} of {self._parallelism} slots registered"
            raise late_start(message, timeout_s, lack())

    def _wait_changed(self, timeout_s: float) -> bool:
        with self._changed:
            return bool(
                self._changed.wait_for(lambda: len(self._slots) == self._parallelism or self._failure is not None, timeout_s)
            )

    def deploy(self, deployments: list[Deployment]) -> None:
        """Let each slot fetch its deployment, and wait until all have restored their state.

        A deployment is pickled, so a slot accepts it only over a connection that it has opened to the driver.

        Raises:
            PystateError: A slot answered with an error, a slot is lost or silent, or the attempt has ended.
        """
        self._deployments = [
            cast(bytes, cloudpickle.dumps(deployment))  # type: ignore[no-untyped-call]
            for deployment in deployments
        ]
        try:
            self.call_all("deploy", lambda _: {})
        finally:
            self._deployments = []

    def call_all(
        self,
        op: str,
        arguments: Callable[[int], dict[str, Any]],
        answered: Callable[[int], object] = lambda _: None,
        bounded: str | None = None,
    ) -> dict[int, Any]:
        """Call all slots concurrently and wait for their answers, see `SlotGateways.call_all`."""
        return self._gateways.call_all(op, arguments, answered, bounded)

    def call(self, index: int, op: str, **arguments: Any) -> Any:
        """Call one slot, see `SlotGateways.call`."""
        return self._gateways.call(index, op, **arguments)

    def notify(self, checkpoint_id: int, *, completed: bool) -> Future[bool]:
        """Notify all subtasks of how a checkpoint ended, see `CheckpointNotifier.notify`."""
        return self._notifier.notify(checkpoint_id, completed=completed)

    def close(self, *, final: bool = False) -> None:
        """Shut the slots down, and stop listening to them.

        A slot that does not answer, because it is stopped or disconnected, is refused at its next heartbeat, and ends then.

        Args:
            final: Whether the job has ended, so that what they keep for another attempt isn't needed.
        """
        with self._changed:
            if self._closing:
                return
            self._closing = True
            slots = list(self._slots.values())
        self._gateways.shut_down(slots, lambda *told: self._events.slot_metrics(*told), final=final)
        with self._changed:
            self._closed = True
        for slot in slots:
            slot.control.close()
            slot.notifications.close()
        self._server.close()
        self._loop.close_idle()  # a slot that was stopped is still to be told that its attempt is over
        self._notifier.close()
        self._gateways.close()

    def fail(self, reason: str) -> None:
        """Give up the attempt: wake callers that wait for slots, and accept only heartbeats from slots."""
        with self._changed:
            self._failure = self._failure or reason
            self._changed.notify_all()

    def silent_slot(self) -> int | None:
        """Return a slot that has been silent for too long, or None."""
        late = [slot for slot in self._registered() if slot.is_late()]
        return next((slot.index for slot in late if slot.is_silent(here=self._one_machine)), None)

    def _registered(self) -> list[RegisteredSlot]:
        with self._changed:
            return [slot for _, slot in sorted(self._slots.items())]

    def _hang(self, slots: list[int], call: str, timeout_s: float) -> None:
        self._events.slots_hang(slots, call, timeout_s)

    def _await_death(self) -> None:
        """Wait until the end of a slot is reported, since heartbeats reveal it slightly later than calls."""
        with self._changed:
            self._changed.wait_for(lambda: self._failure is not None or self._closing, _LAST_WORDS_S + _DEATH_NOTICE_S)

    def _check_alive(self) -> None:
        """Stop waiting if one of the slots will never answer.

        Raises:
            JobExecutionError: One is silent, or the attempt has ended.
        """
        if self._failure is not None:
            message = f"The slots were given up: {self._failure}."
            raise JobExecutionError(message)
        silent = self.silent_slot()
        if silent is not None:
            message = f"Slot {silent} was lost: {SILENT}."
            raise JobExecutionError(message)

    def _handle(self, request: dict[str, Any]) -> Any:
        arguments = dict(request)
        op, slot, attempt = arguments.pop("op"), arguments.pop("slot"), arguments.pop("attempt")
        over = f"Attempt {attempt} is over."
        if op == "heartbeat":
            with self._changed:
                if self._closed or attempt != self._attempt:
                    raise ControlError(over)
                if slot in self._slots:
                    self._slots[slot].heartbeat(arguments.get("restored", 0))
            if arguments.get("metrics") is not None:
                self._events.slot_metrics(slot, arguments["metrics"])
            return None
        if op == "watchdog" and attempt == self._attempt:
            return None
        # a slot that was stopped or disconnected may come back during the next attempt; late acknowledgements are deleted
        if attempt != self._attempt or (self._failure is not None and op != "acknowledge"):
            raise ControlError(over)
        if op == "register":
            return self._register(slot, **arguments)
        if op == "deployment":
            return self._deployment_of(slot)
        return self._events.handle_slot_call(op, arguments)

    def _register(self, index: int, pid: int, task_attempt: int, control: list[Any], data: Any) -> None:
        if task_attempt > 0:
            # Spark started a lost slot again: it has no state, so it must serve nothing
            self._tell_death(index, "Spark restarted the slot without its state")
            message = "This slot lost its state; the job starts a new attempt."
            raise ControlError(message)
        address: Address = data if isinstance(data, str) else (str(data[0]), int(data[1]))
        client, notifications = (ControlClient(str(control[0]), int(control[1]), self._secret) for _ in range(2))
        with self._changed:
            self._slots[index] = RegisteredSlot(index, client, notifications, address, pid)
            self._changed.notify_all()

    def _deployment_of(self, index: int) -> bytes:
        deployments = self._deployments
        if index >= len(deployments):
            message = "There is nothing to deploy: only the driver says when there is."
            raise ControlError(message)
        return deployments[index]

    def handle(self, request: dict[str, Any]) -> Any:
        """Answer one request of a slot."""
        return self._handle(request)

    def session_closed(self, slot: int) -> None:
        """Handle a closed heartbeat connection of a slot."""
        with self._changed:
            if self._closing:
                return
        self._tell_death(slot, "its process is gone")

    def _tell_death(self, index: int, reason: str) -> None:
        with self._changed:
            slot = self._slots.get(index)
            if slot is not None:  # its last output comes over another connection
                self._changed.wait_for(lambda: slot.words_end, _LAST_WORDS_S)
        cause = None if slot is None else crash_cause(slot.words)
        if cause is None:
            self._events.slot_lost(index, reason)
        else:
            self._events.slot_died(index, cause)

    def watchdog_output(self, index: int, text: str) -> None:
        """Process output of a slot's watchdog; empty at the end."""
        with self._changed:
            slot = self._slots.get(index)
            if slot is not None:
                slot.sign(text)
            self._changed.notify_all()


def _have_room_for(slots: int) -> None:
    """Raise the limit of open files to what the connections of the slots need, and warn if that fails."""
    needed = _FILES_BESIDE + slots * _CONNECTIONS_OF_A_SLOT
    if not allow_open_files(needed):
        sys.stderr.write(
            f"WARNING: {slots} slots need up to {needed} open files in the driver, more than the hard limit of this "
            "process: raise it (ulimit -Hn, LimitNOFILE).\n"
        )
