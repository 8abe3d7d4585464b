"""The slot's server for frames of other slots.

A relay delivers the frames for one subtask, and takes those that it sends. Where all slots are on one machine, subtasks send
each other their frames directly (`connect_directly`), and relays carry none.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from pystate.common.errors import ControlError, PystateError, error_from_dict
from pystate.common.processes.control import (
    HEARTBEAT_TIMEOUT_S,
    Address,
    Peer,
    connect,
    hang_up,
    receive_message,
    send_message,
)
from pystate.common.processes.processes import can_run
from pystate.runtime.engines.real_time.slot.frames import PLACE_SIZE, Frame, place_of, unpack_frame
from pystate.runtime.plan.channels import Place
from pystate.runtime.slot.attempt_server import AttemptServer

HEARTBEAT = b""
"""Sent by a relay that has no frame to send: a frame is longer."""
HEARTBEAT_INTERVAL_S = 10.0
"""Flink's default of `heartbeat.interval`."""
DEATH_NOTICE_S = 5.0
"""How long who sends to a slot that is gone leaves it to the driver to notice that, which knows why."""


@dataclass(frozen=True)
class RelayHeader:
    """A relay's description of itself, or that of a subtask that sends its frames directly.

    Attributes:
        job_id: The job.
        attempt: The execution attempt.
        level: The level of its subtask.
        partition: The partition of its subtask.
        task_attempt: How often Spark has started the task before.
        pid: Its process ID.
        is_direct: Whether it is a subtask of another slot; level and partition are then the receiver's.
    """

    job_id: str
    attempt: int
    level: int
    partition: int
    task_attempt: int
    pid: int
    is_direct: bool = False

    def to_plain(self) -> dict[str, Any]:
        """Return the header as plain data."""
        return asdict(self)


class RelayPort:
    """The connections of one subtask to its relay and to subtasks of other slots (a `FrameSender`).

    Args:
        receive: Called with each received frame, on a separate thread; waits while there is no room.
        lost: Called if the relay is lost.
    """

    def __init__(self, receive: Callable[[Frame], None], lost: Callable[[PystateError], None]) -> None:
        self._receive = receive
        self._lost = lost
        self._changed = threading.Condition()
        self._connection: Peer | None = None
        self._receivers: dict[Place, Peer] = {}
        self._senders: set[Peer] = set()
        self._taken = False
        self._is_served = False
        self._closed = False
        self._listens = False
        self._unheard_s = 0.0
        self._pid: int | None = None

    def await_relay(self, timeout_s: float | None = None) -> bool:
        """Wait until the relay is connected, or the port is closed; return whether it is connected."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._taken, timeout_s)
            return self._taken

    def connect_directly(self, place: Place, address: Address, secret: bytes, header: RelayHeader) -> None:
        """Send the frames for a place directly from now on; there must have been none for it before.

        Args:
            place: The place.
            address: The address of the receiver's slot.
            secret: The secret that it asks for.
            header: This subtask's description.

        Raises:
            PystateError: The slot is gone, or rejects it.
        """
        connection = connect(address, secret)
        try:
            introduce(connection, header)
        except (EOFError, OSError) as error:
            connection.close()
            message = f"The slot at {address} has cut the connection: {error!r}"
            raise ControlError(message) from error
        except PystateError:
            connection.close()
            raise
        with self._changed:
            self._receivers[place] = connection

    def send(self, frame: bytes) -> None:
        """Send a frame; waits until the relay is connected, and while the receivers lag behind.

        Raises:
            ControlError: The relay or the receiver's slot is lost, or the attempt is over.
        """
        receiver = self._receivers.get(place_of(frame)) if self._receivers else None
        if receiver is not None:
            self._send_directly(receiver, frame)
            return
        connection = self._connection
        if connection is None or self._closed:
            connection = self._await_connection()
        try:
            connection.send_bytes(frame)
        except (OSError, ValueError, TypeError) as error:  # the last if it is closed while sending
            raise self._gone(error) from error

    def _send_directly(self, receiver: Peer, frame: bytes) -> None:
        try:
            receiver.send_bytes(frame, PLACE_SIZE)
        except (OSError, ValueError, TypeError) as error:
            with self._changed:
                self._changed.wait_for(lambda: self._closed, DEATH_NOTICE_S)
            message = "The attempt is over." if self._closed else "The slot of a subtask that the records are for is gone."
            raise ControlError(message) from error

    def serve_sender(self, connection: Peer) -> None:
        """Receive the frames of a subtask of another slot until it disconnects, which the driver notices by itself.

        Raises:
            ControlError: The attempt is over.
        """
        with self._changed:
            if self._closed:
                message = "The attempt is over."
                raise ControlError(message)
            self._senders.add(connection)
        send_message(connection, {"ok": True})
        try:
            while (frame := _next_frame(connection)) is not None:
                self._receive(unpack_frame(frame))
        except Exception as error:  # whatever it is: the frame is lost, and who has sent it may send no other that fails
            if not self._closed:
                self._lost(error if isinstance(error, PystateError) else _not_taken(error))
        finally:
            with self._changed:
                self._senders.discard(connection)

    def serve(self, connection: Peer, pid: int | None = None) -> None:
        """Receive a relay's frames until it disconnects.

        Args:
            connection: The connection to the relay.
            pid: Its process ID, if it is on this machine.

        Raises:
            ControlError: There was a relay before: its frames in transit are lost.
        """
        with self._changed:
            if self._taken or self._closed:
                message = "This subtask had another relay before; what that one had under way is lost."
                raise ControlError(message)
            self._taken, self._is_served, self._connection, self._pid = True, True, connection, pid
            send_message(connection, {"ok": True})
            self._changed.notify_all()
        try:
            while True:
                self._unheard_s, self._listens = 0.0, True
                frame = connection.recv_bytes()
                self._listens = False
                if frame != HEARTBEAT:
                    self._receive(unpack_frame(frame))
        except (EOFError, OSError) as error:
            if not self._closed:
                self._lost(self._gone(error))
        except PystateError as error:
            if not self._closed:
                self._lost(error)
        finally:
            with self._changed:
                self._is_served = False

    def time_passed(self, seconds: float) -> None:
        """Add to the time without a sign of life from the relay.

        A stopped or disconnected relay doesn't close the connection. The slot counts only time in which it was running
        itself, and doesn't give up a relay on this machine that is runnable but waits for a processor.
        """
        if not self._listens or self._closed:
            return
        self._unheard_s += seconds
        if self._unheard_s <= HEARTBEAT_TIMEOUT_S or self._connection is None:
            return
        if self._pid is not None and can_run(self._pid):
            self._unheard_s = 0.0
        else:
            self._listens = False
            hang_up(self._connection)  # a thread that sends to it may wait for ever, and block the subtask

    def close(self) -> None:
        """Wake up all waiting threads, and close the connections, so that the relay notices the end of its query."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            for one in (*self._receivers.values(), *self._senders):
                hang_up(one)
            if self._is_served and self._connection is not None:
                hang_up(self._connection)

    def _gone(self, error: BaseException) -> ControlError:
        if self._unheard_s > HEARTBEAT_TIMEOUT_S:
            silent = f"The relay of a subtask, a Python worker of Spark's, was not heard of for {HEARTBEAT_TIMEOUT_S:g} s."
            return ControlError(silent)
        return ControlError(f"The relay of a subtask is gone while records may be under way: {error!r}")

    def _await_connection(self) -> Peer:
        self.await_relay()
        connection = self._connection
        if self._closed or connection is None:
            message = "The attempt is over."
            raise ControlError(message)
        return connection


class HasPort(Protocol):
    """An object that is served by a relay."""

    @property
    def port(self) -> RelayPort:
        """The connection to the relay."""


class RelayServer(AttemptServer[Mapping[Place, HasPort]]):
    """Serves the relays of one slot, and who sends to it directly; its subtasks are found by their places."""

    thread_name = "relay"

    def serve(self, connection: Peer) -> None:
        """Serve who sends until it disconnects, and reject one that isn't for this slot."""
        with contextlib.suppress(EOFError, OSError):
            try:
                header = RelayHeader(**receive_message(connection))
                port = self._port(header)
                if header.is_direct:
                    port.serve_sender(connection)
                else:
                    port.serve(connection, header.pid if isinstance(self.address, str) else None)
            except PystateError as error:
                send_message(connection, {"ok": False, "error": error.to_dict()})

    def _port(self, header: RelayHeader) -> RelayPort:
        self.check_attempt(header.job_id, header.attempt)
        subtask = self._subtasks.get((header.level, header.partition))
        if subtask is None:
            message = f"This slot does not host the subtask at place {header.partition} of level {header.level}."
            raise ControlError(message)
        if header.task_attempt > 0:
            message = "Spark has started a relay again; what the first one had under way is lost."
            raise ControlError(message)
        return subtask.port


def _next_frame(connection: Peer) -> bytes | None:
    """Return the next frame of a subtask of another slot; None once that is gone."""
    try:
        return connection.recv_bytes()
    except (EOFError, OSError):
        return None


def _not_taken(error: Exception) -> ControlError:
    return ControlError(f"A frame of another slot came, and can't be taken: {error!r}")


def introduce(connection: Peer, header: RelayHeader) -> None:
    """Identify a relay to a slot.

    Raises:
        PystateError: The slot rejects it.
        EOFError, OSError: The connection is lost.
    """
    send_message(connection, header.to_plain())
    answer = receive_message(connection)
    if not answer["ok"]:
        raise error_from_dict(answer["error"])
