"""The real-time engine's side in one slot."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import pyarrow as pa

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import ControlError, PystateError
from pystate.common.processes.control import Address
from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.engines.real_time.slot.frames import Frame
from pystate.runtime.engines.real_time.slot.input.input_gate import InputGate
from pystate.runtime.engines.real_time.slot.input.input_settings import InputSettings
from pystate.runtime.engines.real_time.slot.mailbox import TaskMailbox
from pystate.runtime.engines.real_time.slot.output.record_writer import Deliver, RecordWriter
from pystate.runtime.engines.real_time.slot.output.subtask_output import RealTimeGateway
from pystate.runtime.engines.real_time.slot.real_time_subtask import RealTimeSubtask
from pystate.runtime.engines.real_time.slot.relay_server import RelayHeader, RelayPort, RelayServer
from pystate.runtime.plan.channels import JobChannels, Place
from pystate.runtime.plan.task import JobEnvironment, TaskSpec
from pystate.runtime.plan.task_output import LINE_FIELD
from pystate.runtime.slot.gateway import CoordinatorGateway
from pystate.runtime.slot.slot_engine import SlotContext
from pystate.runtime.slot.subtask import Subtask
from pystate.runtime.slot.subtask_checkpoints import Upload

REPORT_INTERVAL_S = 0.5


@dataclass(frozen=True)
class RealTimeSlotEngineFactory:
    """Creates the engine in each slot of an attempt.

    Attributes:
        channels: All subtasks of the job, and the channels between them.
    """

    channels: JobChannels

    def __call__(self, slot: SlotContext) -> RealTimeSlotEngine:
        """Return the engine for a slot."""
        return RealTimeSlotEngine(slot, self.channels)


class DriverRealTimeGateway(RealTimeGateway):
    """Calls the driver.

    Args:
        gateway: The slot's gateway to the driver.
    """

    def __init__(self, gateway: CoordinatorGateway) -> None:
        self._gateway = gateway

    def printed(self, uid: str, subtask: int, tag: int, batch: pa.RecordBatch) -> None:
        """Have lines printed."""
        self._gateway.call("printed", lines=batch.column(LINE_FIELD).to_pylist())

    def collected(self, uid: str, subtask: int, tag: int, last_barrier: int, batch: pa.RecordBatch) -> None:
        """Send results for the program."""
        data = batch.serialize().to_pybytes()
        self._gateway.call("collected", uid=uid, subtask=subtask, tag=tag, last_barrier=last_barrier, batch=data)

    def ended(self, uid: str, subtask: int) -> None:
        """Report that all elements are processed."""
        self._gateway.call("subtask_ended", uid=uid, subtask=subtask)

    def source_messages(self, uid: str, subtask: int, number: int, messages: list[Any]) -> list[Any] | None:
        """Send a reader's messages to its enumerator."""
        answers: list[Any] | None = self._gateway.call(
            "source_messages", uid=uid, subtask=subtask, number=number, messages=messages
        )
        return answers


class ConnectedSubtask:
    """A subtask with its channels.

    Args:
        subtask: The subtask.
        port: The connection to its relay.
        gate: Its input; None for a source.
    """

    def __init__(self, subtask: RealTimeSubtask, port: RelayPort, gate: InputGate | None) -> None:
        self.subtask = subtask
        self.port = port
        self._gate = gate

    def announce(self, barrier: CheckpointBarrier) -> None:
        """Announce a barrier that was sent through the channels."""
        if self._gate is not None:
            self._gate.announce(barrier)

    def deliver(self, frame: Frame) -> None:
        """Take a frame of another subtask of this slot, on that one's thread; waits while there is no room.

        Raises:
            ControlError: The attempt is over, or this subtask has failed.
        """
        if self._gate is None:
            _nobody(frame)
        else:
            try:
                self._gate.receive(frame)
            except ControlError:
                raise
            except PystateError as error:
                self.subtask.fail(error, "")
                message = "A subtask that the records are for has failed."
                raise ControlError(message) from error

    def end(self) -> None:
        """Take nothing more."""
        self.port.close()
        if self._gate is not None:
            self._gate.end()

    @property
    def has_room(self) -> bool:
        """Whether its input has room, see `InputGate.has_room`."""
        return self._gate is None or self._gate.has_room


class RealTimeSlotEngine:
    """Moves frames between relays and subtasks, and between the slot's own subtasks; sends barriers to sources.

    Args:
        slot: The slot.
        channels: All subtasks of the job, and the channels between them.
    """

    def __init__(self, slot: SlotContext, channels: JobChannels) -> None:
        self._slot = slot
        self._channels = channels
        self._closed = threading.Event()
        self._driver = DriverRealTimeGateway(slot.gateway)
        self._by_place: dict[Place, ConnectedSubtask] = {}
        self._by_uid: dict[str, ConnectedSubtask] = {}
        path = f"{slot.directory}/relay" if slot.unix_sockets else None
        self._server = RelayServer(
            slot.secret, slot.job_id, slot.attempt, self._by_place, host=slot.host, ports=slot.ports, path=path
        )

    @property
    def address(self) -> str | tuple[str, int]:
        """The address at which relays reach the slot."""
        return self._server.address

    def start(self) -> None:
        """Start to accept relays."""
        self._server.start()

    def close(self) -> None:
        """Stop accepting relays."""
        self._closed.set()
        self._server.close()
        for one in self._by_uid.values():
            one.end()

    def make_subtask(self, task: TaskSpec, environment: JobEnvironment, upload: Upload) -> Subtask:
        """Return the slot's subtask of a task, with its channels."""
        index, channels = self._slot.index, self._channels.tasks[task.uid]
        mailbox = TaskMailbox()
        gate = None
        if channels.upstream:
            settings = InputSettings.of(Configuration(environment.configuration), self._slot.directory)
            gate = InputGate(channels.upstream, mailbox, settings)

        def lost(error: PystateError) -> None:
            subtask.fail(error, "")

        port = RelayPort(_nobody if gate is None else gate.receive, lost)
        writer, gateway = RecordWriter(task, index, self._channels, port, self._local), self._slot.gateway
        subtask = RealTimeSubtask(task, index, environment, gateway, self._driver, upload, mailbox, gate, writer, channels)
        self._by_uid[task.uid] = self._by_place[channels.level, channels.first_partition + index] = ConnectedSubtask(
            subtask, port, gate
        )
        return subtask

    def _local(self, place: Place) -> Deliver | None:
        found = self._by_place.get(place)
        return None if found is None else found.deliver

    def serve(self, subtasks: dict[str, Subtask]) -> None:
        """Wait for the driver's side, which starts the subtasks once the relays are connected."""

    def handle(self, request: dict[str, Any]) -> Any:
        """Answer a call of the engine's driver side.

        Raises:
            ControlError: The call is unknown.
        """
        op = request["op"]
        if op == "await_relays":
            deadline = time.monotonic() + request["timeout_s"]
            return all(one.port.await_relay(max(0.0, deadline - time.monotonic())) for one in self._by_uid.values())
        if op == "start":
            self._connect(request["slots"])
            for one in self._by_uid.values():
                one.subtask.start()
            threading.Thread(target=self._report, name="records", daemon=True).start()
            return None
        sources = [one.subtask for one in self._by_uid.values() if one.subtask.source is not None]
        if op == "trigger_checkpoint":
            barrier = CheckpointBarrier.from_plain(request["barrier"])
            for one in self._by_uid.values():
                one.announce(barrier)
            for source in sources:
                source.trigger_checkpoint(barrier)
            return None
        if op == "resume":
            for one in self._by_uid.values():
                one.subtask.resume(request["checkpoint_id"])
            return None
        if op == "drain":
            for source in sources:
                source.drain()
            return None
        if op == "has_room":
            return [uid for uid, one in self._by_uid.items() if one.has_room]
        if op == "pause":
            for one in self._by_uid.values():
                one.subtask.change_pause(lambda pause: pause.begin(request["checkpoint_id"]))
            return None
        if op == "room_made":
            for uid in request["uids"]:
                if uid in self._by_uid:
                    self._by_uid[uid].subtask.change_pause(lambda pause: pause.end(request["checkpoint_id"]))
            return None
        if op == "source_messages":
            enumerating = self._by_uid[request["uid"]].subtask.source
            assert enumerating is not None  # noqa: S101 - only subtasks of a source send messages
            return enumerating.answer(request["subtask"], request["number"], request["messages"])
        message = f"A slot does not know the op {op!r}."
        raise ControlError(message)

    def _connect(self, slots: Sequence[Sequence[Address]]) -> None:
        """Connect the subtasks to all those of other slots that they send to.

        Args:
            slots: The address of the slot of each place; none where relays carry the frames.
        """
        slot = self._slot
        for uid, one in self._by_uid.items():
            for place in self._channels.receivers(uid) if slots else ():
                if place not in self._by_place:
                    header = RelayHeader(slot.job_id, slot.attempt, *place, 0, os.getpid(), is_direct=True)
                    found = slots[place[0]][place[1]]
                    address = found if isinstance(found, str) else (found[0], found[1])
                    one.port.connect_directly(place, address, slot.secret, header)

    def _report(self) -> None:
        """Report changed record counts of the subtasks, and check the relays for timeouts."""
        reported: dict[str, tuple[int, int]] = {}
        while not self._closed.wait(REPORT_INTERVAL_S):
            for one in self._by_uid.values():
                one.port.time_passed(REPORT_INTERVAL_S)
            counts = {uid: one.subtask.chain.metrics.totals() for uid, one in self._by_uid.items()}
            if counts == reported:
                continue
            try:
                self._slot.gateway.call("records", slot_index=self._slot.index, counts=counts)
            except PystateError:
                return  # the attempt is over
            reported = counts


def _nobody(_frame: object) -> NoReturn:
    message = "Something came through a channel to a source."
    raise ControlError(message)
