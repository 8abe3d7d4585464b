"""The slots of one execution attempt, as the coordinator sees them."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Protocol, cast

from pyspark import cloudpickle

from pystate.common.control import Address, ControlClient, ControlServer, ControlSession, Peer
from pystate.common.errors import ConnectionLostError, ControlError, JobExecutionError, PystateError
from pystate.common.option_types import ANY_PORT
from pystate.common.processes import can_run
from pystate.driver.last_words import cause_of_death, held_at
from pystate.slot.micro_batch.prepared_epoch import PreparedEpoch, SubtaskId
from pystate.slot.process import Deployment, SlotDescription
from pystate.snapshot.barrier import CheckpointBarrier
from pystate.spark.micro_batch.exchange import SlotDirectory

HEARTBEAT_TIMEOUT_S = 50.0
"""Flink's default of `heartbeat.timeout`."""
_WATCH_S = 0.1
_LOOK_S = 1.0
_SHUTDOWN_S = 2.0
_LAST_WORDS_S = 1.0
_DEATH_NOTICE_S = 1.0
_KEPT_WORDS = 1 << 16


class SlotEvents(Protocol):
    """What slots tell and ask, and what becomes of them."""

    def handle_slot_call(self, op: str, arguments: dict[str, Any]) -> Any:
        """Answer a call from a subtask."""

    def slot_lost(self, slot: int, reason: str) -> None:
        """Take note that a slot is gone."""

    def slot_died(self, slot: int, cause: str) -> None:
        """Take note that user code has ended a slot's process."""

    def slots_hang(self, slots: list[int], call: str, timeout_s: float) -> None:
        """Take note that slots have not answered a call in time."""

    def slot_metrics(self, report: dict[str, Any]) -> None:
        """Take what a slot has measured."""


class _Slot:
    """One registered slot."""

    def __init__(self, control: ControlClient, notifications: ControlClient, data: Address, pid: int) -> None:
        self.control = control
        self.notifications = notifications  # user code answers them, so nothing else may wait behind them
        self.data = data
        self.pid = pid
        self.last_heartbeat = self.last_sign = time.monotonic()
        self.restored = 0
        self.words = ""  # the last that its process wrote without its interpreter
        self.words_end = False
        self.is_held = False


class SlotPool:
    """Registers the slots of an attempt, deploys to them, and notices when one is gone.

    Args:
        job_id: The job.
        attempt: The execution attempt; calls that carry another one are refused.
        parallelism: The number of slots.
        secret: What slots prove, and what we prove to them.
        events: Who is told.
        host: The address to bind to, which the slots can reach.
        ports: On which driver and slots may listen.
        unix_sockets: Whether slots and exchanges share a machine.
        call_timeout_s: How long the functions of a slot may take to hear of a checkpoint.
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
        self._call_timeout_s = call_timeout_s
        self._one_machine = unix_sockets
        self._job_id = job_id
        self._parallelism = parallelism
        self._secret = secret
        self._events = events
        self._slots: dict[int, _Slot] = {}
        self._changed = threading.Condition()
        self._closing = False
        self._closed = False
        self._failure: str | None = None
        self._server = ControlServer(secret, self._handle, host=host, ports=ports, session=lambda: _SlotSession(self))
        self._calls = ThreadPoolExecutor(max_workers=max(4, parallelism), thread_name_prefix="slot-call")
        self._notifier = ThreadPoolExecutor(max_workers=1, thread_name_prefix="notify-checkpoint")
        self._notifying = ThreadPoolExecutor(max_workers=max(4, parallelism), thread_name_prefix="notify-slot")
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
    def restored_bytes(self) -> int:
        """The bytes of old keyed state that the slots have read, as of their last heartbeats."""
        with self._changed:
            return sum(slot.restored for slot in self._slots.values())

    def start(self) -> None:
        """Begin to accept slots."""
        self._server.start()

    def wait_registered(self, timeout_s: float, look: Callable[[], object] = lambda: None) -> SlotDirectory:
        """Wait until all slots are there and return where they are.

        Args:
            timeout_s: How long they may take.
            look: Called from time to time while they are not; raises where they can't come.

        Raises:
            JobExecutionError: Not all came in time.
        """
        deadline = time.monotonic() + timeout_s
        while not self._wait_changed(min(_LOOK_S, deadline - time.monotonic())):
            look()
            if time.monotonic() >= deadline:
                break
        with self._changed:
            if self._failure is not None:
                message = f"A slot was lost while the job started: {self._failure}"
                raise JobExecutionError(message)
            if len(self._slots) < self._parallelism:
                message = f"{len(self._slots)} of {self._parallelism} slots registered within {timeout_s:g} s."
                hint = "give Spark more cores (2 x parallelism + 2) or raise pystate.slot.startup-timeout"
                raise JobExecutionError(message, hint=hint)
            addresses = tuple(self._slots[index].data for index in range(self._parallelism))
        return SlotDirectory(self._job_id, self._attempt, self._secret, addresses)

    def _wait_changed(self, timeout_s: float) -> bool:
        with self._changed:
            return bool(
                self._changed.wait_for(lambda: len(self._slots) == self._parallelism or self._failure is not None, timeout_s)
            )

    def deploy(self, deployments: list[Deployment]) -> None:
        """Give each slot its deployment and wait until all have restored their state.

        Raises:
            PystateError: What a slot answered, that one is gone or not heard of any more, or that the attempt has ended.
        """
        packed = [cast(bytes, cloudpickle.dumps(deployment)) for deployment in deployments]  # type: ignore[no-untyped-call]
        self._on_all(lambda index, slot: slot.control.call("deploy", deployment=packed[index]))

    def snapshot(self, barrier: CheckpointBarrier) -> None:
        """Have all subtasks take the synchronous part of a snapshot.

        Raises:
            PystateError: A slot declined, is gone or not heard of any more, or the attempt has ended.
        """
        self._on_all(lambda _, slot: slot.control.call("snapshot", barrier=barrier.to_plain()))

    def finish_epoch(
        self,
        epoch: int,
        prepared: Mapping[SubtaskId, PreparedEpoch],
        barrier: CheckpointBarrier | None,
        slot_finished: Callable[[int], None],
    ) -> None:
        """Have all subtasks make an epoch part of their state, and take the synchronous part of its barrier.

        Args:
            epoch: Which.
            prepared: What each subtask has told of it; the task attempts that it names are proven to be whole.
            barrier: The one that the epoch carries; None for none.
            slot_finished: Called with each slot that has done it.

        Raises:
            PystateError: A subtask can't or hangs, a slot is gone or not heard of any more, or the attempt has ended.
        """
        attempts: dict[int, dict[str, int]] = {}
        for (uid, subtask), share in prepared.items():
            attempts.setdefault(subtask, {})[uid] = share.task_attempt_id
        plain = None if barrier is None else barrier.to_plain()

        def finish(index: int, slot: _Slot) -> None:
            slot.control.call("finish_epoch", epoch=epoch, task_attempts=attempts.get(index, {}), barrier=plain)
            slot_finished(index)

        self._on_all(finish, f"finish epoch {epoch}")

    def notify(self, checkpoint_id: int, *, completed: bool) -> Future[None]:
        """Tell all subtasks what became of a checkpoint, one checkpoint after another in the order of the calls.

        Returns:
            Done when every function that is between two epochs has been called; one whose epoch runs is called behind it. A
            slot that can't be reached is not told: it is lost, or a later notification stands for this one.
        """
        try:
            return self._notifier.submit(self._notify, checkpoint_id, completed)
        except RuntimeError:  # the pool is closed
            nobody: Future[None] = Future()
            nobody.set_result(None)
            return nobody

    def _notify(self, checkpoint_id: int, completed: bool) -> None:
        def tell(slot: _Slot) -> None:
            with contextlib.suppress(PystateError):
                slot.notifications.call("notify", checkpoint_id=checkpoint_id, completed=completed)

        with self._changed:
            slots = sorted(self._slots.items())
        told = {self._notifying.submit(tell, slot): index for index, slot in slots}
        hanging = sorted(told[one] for one in wait(told, self._call_timeout_s).not_done)
        if hanging and self._call_timeout_s is not None:
            self._events.slots_hang(hanging, f"hear how checkpoint {checkpoint_id} ended", self._call_timeout_s)

    def close(self, *, final: bool = False) -> None:
        """Tell the slots to end, and stop listening to them.

        One that does not answer, because it is stopped or cut off, is refused at its next heartbeat, and ends then.

        Args:
            final: The job has ended, so that nobody will need what they keep for another attempt.
        """

        def shut_down(slot: _Slot) -> None:
            with contextlib.suppress(PystateError):  # it is gone already, which is what we want
                last_word = slot.control.call("shutdown", final=final)
                if isinstance(last_word, dict):
                    self._events.slot_metrics(last_word)

        with self._changed:
            if self._closing:
                return
            self._closing = True
            slots = list(self._slots.values())
        wait([self._calls.submit(shut_down, slot) for slot in slots], _SHUTDOWN_S)
        with self._changed:
            self._closed = True
        for slot in slots:
            slot.control.hang_up()
            slot.notifications.hang_up()
        self._server.close()
        for calls in (self._calls, self._notifier, self._notifying):
            calls.shutdown(wait=False, cancel_futures=True)

    def fail(self, reason: str) -> None:
        """Give the attempt up: wake those who wait for slots, and take nothing from slots any more but heartbeats."""
        with self._changed:
            self._failure = self._failure or reason
            self._changed.notify_all()

    def silent_slot(self) -> int | None:
        """Return a slot that has not been heard of for too long, or None."""
        now = time.monotonic()
        with self._changed:
            late = [(index, slot) for index, slot in self._slots.items() if now - slot.last_heartbeat > HEARTBEAT_TIMEOUT_S]
        for index, slot in late:
            if now - slot.last_sign > HEARTBEAT_TIMEOUT_S and not (self._one_machine and can_run(slot.pid)):
                return index
            if not slot.is_held:  # a stopped or cut off process gives neither sign: this one is only held up
                where = held_at(slot.words)
                sys.stderr.write(
                    f"WARNING: Slot {index} (process {slot.pid}) has sent no heartbeat for {HEARTBEAT_TIMEOUT_S:g} s, but "
                    f"runs: its interpreter is held, by {where or 'native code'}.\n"
                )
            slot.is_held = True
        return None

    def _on_all(self, call: Callable[[int, _Slot], Any], bounded: str | None = None) -> None:
        """Call all slots and wait for their answers.

        Args:
            call: Calls one.
            bounded: What they are to do, where they have only as long as a checkpoint has.
        """
        with self._changed:
            slots = sorted(self._slots.items())
        limit_s = self._call_timeout_s
        deadline = None if bounded is None or limit_s is None else time.monotonic() + limit_s
        calls = {self._calls.submit(call, index, slot): index for index, slot in slots}
        while left := wait(calls, _WATCH_S).not_done:
            self._check_alive()
            if deadline is not None and time.monotonic() >= deadline:
                self._events.slots_hang(sorted(calls[one] for one in left), str(bounded), limit_s or 0.0)
                deadline = None  # the attempt ends, and with it the wait
        for done in calls:
            try:
                done.result()
            except ConnectionLostError:
                self._await_death()
                raise

    def _await_death(self) -> None:
        """Let the end of a slot be told before what it broke: its heartbeats tell of it a moment later than a call to it."""
        with self._changed:
            self._changed.wait_for(lambda: self._failure is not None or self._closing, _LAST_WORDS_S + _DEATH_NOTICE_S)

    def _check_alive(self) -> None:
        """Give up waiting for slots of which one will never answer.

        Raises:
            JobExecutionError: One is silent, or the attempt has ended.
        """
        if self._failure is not None:
            message = f"The slots were given up: {self._failure}."
            raise JobExecutionError(message)
        silent = self.silent_slot()
        if silent is not None:
            message = f"Slot {silent} was lost: it has not been heard of for too long."
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
                    self._slots[slot].last_heartbeat = time.monotonic()
                    self._slots[slot].is_held = False
                    self._slots[slot].restored = arguments.get("restored", 0)
            if arguments.get("metrics") is not None:
                self._events.slot_metrics(arguments["metrics"])
            return None
        if op == "signs" and attempt == self._attempt:
            return None
        # a slot that was stopped or cut off may come back while the next attempt runs; what it acknowledges late is deleted
        if attempt != self._attempt or (self._failure is not None and op != "acknowledge"):
            raise ControlError(over)
        if op == "register":
            return self._register(slot, **arguments)
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
            self._slots[index] = _Slot(client, notifications, address, pid)
            self._changed.notify_all()

    def handle(self, request: dict[str, Any]) -> Any:
        """Answer one request of a slot."""
        return self._handle(request)

    def session_closed(self, slot: int) -> None:
        """Take note that a slot's heartbeat connection is closed."""
        with self._changed:
            if self._closing:
                return
        self._tell_death(slot, "its process is gone")

    def _tell_death(self, index: int, reason: str) -> None:
        with self._changed:
            slot = self._slots.get(index)
            if slot is not None:  # what it wrote at last comes over another connection
                self._changed.wait_for(lambda: slot.words_end, _LAST_WORDS_S)
        cause = None if slot is None else cause_of_death(slot.words)
        if cause is None:
            self._events.slot_lost(index, reason)
        else:
            self._events.slot_died(index, cause)

    def signs(self, index: int, text: str) -> None:
        """Take what a slot's process writes without its interpreter; nothing at its end."""
        with self._changed:
            slot = self._slots.get(index)
            if slot is not None:
                slot.last_sign = time.monotonic() if text else slot.last_sign
                slot.words = (slot.words + text)[-_KEPT_WORDS:]
                slot.words_end = not text
            self._changed.notify_all()


class _SlotSession(ControlSession):
    """A slot's connection; the one that carries heartbeats lives as long as the slot."""

    def __init__(self, pool: SlotPool) -> None:
        super().__init__(pool.handle)
        self._pool = pool
        self._heartbeats_of: int | None = None
        self._signs_of: int | None = None

    def handle(self, request: dict[str, Any]) -> Any:
        """Answer one request."""
        if request.get("op") == "heartbeat":
            self._heartbeats_of = request.get("slot")
        answer = super().handle(request)
        if request.get("op") == "signs":
            self._signs_of = request.get("slot")
        return answer

    def takes_over(self, connection: Peer) -> bool:
        """Read a slot's signs of life, which are no requests."""
        if self._signs_of is None:
            return False
        text = b""
        try:
            while text := os.read(connection.fileno(), 1 << 16):
                self._pool.signs(self._signs_of, text.decode(errors="replace"))
        finally:
            self._pool.signs(self._signs_of, "")
        return True

    def closed(self) -> None:
        """A closed heartbeat connection is a dead slot."""
        if self._heartbeats_of is not None:
            self._pool.session_closed(self._heartbeats_of)
