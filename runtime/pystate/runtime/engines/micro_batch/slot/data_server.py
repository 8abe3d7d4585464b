"""The slot's side of the exchange."""

from __future__ import annotations

from collections.abc import Generator

import pyarrow as pa

from pystate.common.errors import ControlError, PystateError
from pystate.common.processes.control import Peer, hang_up, receive_message
from pystate.runtime.engines.micro_batch.slot.kept_output import KeptOutput
from pystate.runtime.engines.micro_batch.slot.micro_batch_subtask import MicroBatchSubtask
from pystate.runtime.engines.micro_batch.slot.protocol import (
    Admission,
    EpochHeader,
    ExchangeOp,
    admit,
    receive_batches,
    receive_trailer,
    refuse,
    send_kept,
)
from pystate.runtime.slot.attempt_server import AttemptServer


class DataServer(AttemptServer[dict[str, MicroBatchSubtask]]):
    """Serves the exchanges of one slot, whose subtasks have their uids."""

    thread_name = "exchange"

    def serve(self, connection: Peer) -> None:
        """Answer an exchange, and reject one that isn't for this slot."""
        try:
            header = EpochHeader(**receive_message(connection))
            try:
                self._answer(header, connection)
            except PystateError as error:
                refuse(connection, error)
                # a peer that still sends must receive the answer: closing now would cut it off with a broken pipe
                while True:
                    connection.recv_bytes()
        except (EOFError, OSError):
            return  # the peer is gone; the epoch it had begun has been rolled back

    def _answer(self, header: EpochHeader, connection: Peer) -> None:
        self.check_attempt(header.job_id, header.attempt)
        subtask = self._subtasks.get(header.uid)
        if subtask is None or subtask.index != header.subtask:
            message = f"This slot does not host subtask {header.subtask} of {header.uid!r}."
            raise ControlError(message)
        if header.op == ExchangeOp.FETCH.value:
            kept = subtask.kept_output(header.epoch)
            admit(connection, Admission.REPLAY)
        else:
            kept = self._process(header, subtask, connection)
        self._send_output(header, subtask, kept, connection)

    def _process(self, header: EpochHeader, subtask: MicroBatchSubtask, connection: Peer) -> KeptOutput:
        def batches() -> Generator[tuple[int, pa.RecordBatch], None, int]:
            rows = 0
            try:
                admit(connection, Admission.SEND)
                for index, batch in receive_batches(connection):
                    rows += batch.num_rows
                    yield index, batch
                return receive_trailer(connection, rows)
            except (EOFError, OSError) as error:
                message = f"The exchange of epoch {header.epoch} died after {rows} rows."
                raise ControlError(message, where=f"uid {header.uid}, subtask {header.subtask}") from error

        kept = subtask.run(
            header.epoch,
            header.asker,
            lambda: hang_up(connection),
            batches,
            end_of_input=header.end_of_input,
            clock=header.clock,
            ended=header.ended,
        )
        admit(connection, Admission.REPLAY)
        return kept

    def _send_output(self, header: EpochHeader, subtask: MicroBatchSubtask, kept: KeptOutput, connection: Peer) -> None:
        for tag in header.tags:
            send_kept(connection, subtask.task.output(tag).schema(), kept.batches(tag))
