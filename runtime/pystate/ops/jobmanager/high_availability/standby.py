"""A job manager with high availability: it waits, leads, and waits again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from starlette.types import ASGIApp

from pystate.common.errors import PystateError
from pystate.ops.jobmanager.dispatcher import Dispatcher
from pystate.ops.jobmanager.high_availability.leader_election import LeaderElection, Term
from pystate.ops.jobmanager.high_availability.leader_gate import LeaderGate
from pystate.ops.jobmanager.high_availability.lease import LeaseTerms
from pystate.ops.jobmanager.high_availability.shared_storage import HighAvailabilityStorage
from pystate.ops.jobmanager.leadership import LeadershipLostError

logger = logging.getLogger(__name__)


class StandbyJobManager:
    """A job manager that has a dispatcher while it leads.

    Args:
        storage: The shared storage.
        terms: The times of the lease.
        entry: The address of this job manager.
        gate: Serves requests.
        new_dispatcher: Creates the dispatcher of a term.
        new_app: Creates the web application of a dispatcher.
    """

    def __init__(
        self,
        storage: HighAvailabilityStorage,
        terms: LeaseTerms,
        entry: dict[str, Any],
        gate: LeaderGate,
        new_dispatcher: Callable[[Term], Dispatcher],
        new_app: Callable[[Dispatcher], ASGIApp],
    ) -> None:
        self._lease = storage.lease
        self._gate = gate
        self._new_dispatcher = new_dispatcher
        self._new_app = new_app
        self._dispatcher: Dispatcher | None = None
        self._election = LeaderElection(self._lease, terms, entry, self._take_over, self._step_down)

    def start(self) -> None:
        """Start to wait for the lease."""
        self._election.start()

    def close(self) -> None:
        """Release the lease and stop."""
        self._election.stop()

    def _take_over(self, term: Term) -> None:
        dispatcher = self._new_dispatcher(term)
        self._dispatcher = dispatcher
        try:
            dispatcher.recover(dispatcher.steps.do("reading which term was complete", self._lease.latest_complete))

            def complete() -> None:
                term.check()
                self._lease.complete(term.token)

            dispatcher.steps.do("writing down that all jobs are taken over", complete)
            dispatcher.expire_periodically()
            self._gate.lead(term, self._new_app(dispatcher))
            logger.info("term %d: all jobs are taken over", term.token)
        except LeadershipLostError as error:
            dispatcher.close()
            logger.warning("term %d is over before all jobs were taken over: %s", term.token, error.message)
        except PystateError:
            logger.exception("the jobs can't be taken over; another job manager may try")
            dispatcher.close()
            self._election.resign()

    def _step_down(self) -> None:
        self._gate.follow()
        if self._dispatcher is not None:
            self._dispatcher.close()
            self._dispatcher = None
