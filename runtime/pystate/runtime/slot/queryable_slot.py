"""The queryable state of one slot: its server, and its reports to the driver."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.queryable_state_options import QueryableStateOptions
from pystate.common.errors import StateDeclarationError
from pystate.core.queryable.kv_state_location import key_of_reads
from pystate.core.queryable.server.kv_state_registry import KvStateRegistry
from pystate.core.queryable.server.kv_state_server import KvStateServer
from pystate.runtime.slot.gateway import CoordinatorGateway
from pystate.runtime.slot.subtask import Subtask

_DEFAULT_THREADS = 1


class QueryableSlot:
    """Serves the states of a slot's subtasks.

    Args:
        index: The slot's number.
        subtasks: The subtasks by uid; they are open.
        configuration: The effective options.
        gateway: Calls the coordinator.
        secret: The secret of the execution attempt.
        host: The address to bind to.

    Raises:
        StateDeclarationError: Two states have the same queryable name.
        ControlError: No port is free.
    """

    def __init__(
        self,
        index: int,
        subtasks: Mapping[str, Subtask],
        configuration: Configuration,
        gateway: CoordinatorGateway,
        secret: bytes,
        host: str,
    ) -> None:
        self._index = index
        self._gateway = gateway
        self._registry = KvStateRegistry()
        self._parallelism = {uid: subtask.task.parallelism for uid, subtask in subtasks.items()}
        for uid, subtask in subtasks.items():
            if subtask.versions is not None and subtask.chain.backend is not None:
                self._registry.add(uid, subtask.chain.backend, subtask.versions)
        self._server = KvStateServer(
            self._registry,
            key_of_reads(secret),
            host=host,
            ports=configuration.get(QueryableStateOptions.SERVER_PORT_RANGE),
            threads=configuration.get(QueryableStateOptions.SERVER_ASYNC_QUERY_THREADS) or _DEFAULT_THREADS,
            reads_per_second=configuration.get(QueryableStateOptions.MAX_READS_PER_SECOND),
        )
        self._server.start()
        host, port = self._server.address
        print(f"Started Queryable State Server @ {host}:{port}", file=sys.stderr, flush=True)
        self._told: int | None = None

    def tell(self) -> None:
        """Report the slot's address and states to the driver, if they have changed since the last report.

        Raises:
            StateDeclarationError: Two states have the same queryable name.
            PystateError: The driver rejects the report, or is lost.
        """
        states = self._registry.states()
        if len(states) == self._told:
            return
        plain = [[state.to_plain(), self._parallelism[state.uid]] for state in states]
        self._gateway.call("kv_states", index=self._index, address=list(self._server.address), states=plain)
        self._told = len(states)

    def tell_of_late_ones(self) -> None:
        """Report states that functions have declared since; the job fails if two states have the same name.

        Raises:
            ControlError: The driver is lost.
        """
        try:
            self.tell()
        except StateDeclarationError as error:
            self._gateway.task_failed(next(iter(self._parallelism)), self._index, error, "")

    def close(self) -> None:
        """Stop answering."""
        self._server.close()
