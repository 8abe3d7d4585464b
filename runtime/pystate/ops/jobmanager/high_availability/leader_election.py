"""Leader election: takes the lease and renews it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from pystate.common.time import steady_ms
from pystate.ops.jobmanager.high_availability.lease import Candidacy, HeldLease, LeaseTerms
from pystate.ops.jobmanager.high_availability.lease_files import LeaseStore
from pystate.ops.jobmanager.leadership import LeadershipInDoubtError, LeadershipLostError

logger = logging.getLogger(__name__)


class Term:
    """A period in which this job manager leads; the dispatcher and its jobs check it before they act."""

    def __init__(self, lease: HeldLease, terms: LeaseTerms, store: LeaseStore, clock: Callable[[], int]) -> None:
        self._lease = lease
        self._terms = terms
        self._store = store
        self._clock = clock
        self._over = False

    @property
    def token(self) -> int:
        """The fencing token."""
        return self._lease.token

    @property
    def is_valid(self) -> bool:
        """Whether the lease is valid by the local clock; does no I/O."""
        return not self._over and self._lease.is_valid(self._terms, self._clock())

    def check(self) -> None:
        """Check that nobody else leads.

        Raises:
            LeadershipLostError: Another job manager leads, the lease wasn't renewed in time, or its storage can't be read.
        """
        if not self.is_valid:
            message = "This job manager does not lead any more: its lease was not renewed in time."
            raise LeadershipLostError(message, hint="pystate cluster status")
        try:
            highest = self._store.highest_token()
        except OSError as error:
            message = f"Nobody can tell which job manager leads: {error}."
            raise LeadershipInDoubtError(message, hint="pystate cluster status") from error
        if self._lease.is_lost(highest):
            self.end()
            message = f"Another job manager leads (term {highest}; this one had term {self.token})."
            raise LeadershipLostError(message, hint="pystate cluster status")

    def renew(self) -> None:
        """Renew the lease.

        Raises:
            OSError: The storage failed; retries are possible until the deadline.
            LeadershipLostError: Another job manager leads, or the deadline has passed.
        """
        began = self._clock()
        self.check()
        self._store.renew(self.token)
        self._lease = HeldLease(self.token, began)

    def end(self) -> None:
        """End the term."""
        self._over = True


class LeaderElection:
    """One candidate, which runs on its own thread.

    Args:
        store: The lease.
        terms: The times of the lease.
        entry: The address of this job manager.
        elected: Called at the start of each own term, on a thread of its own.
        lost: Called at the end of each own term.
        clock: Returns milliseconds of a monotonic clock.
    """

    def __init__(
        self,
        store: LeaseStore,
        terms: LeaseTerms,
        entry: dict[str, Any],
        elected: Callable[[Term], object],
        lost: Callable[[], object],
        clock: Callable[[], int] = steady_ms,
    ) -> None:
        self._store = store
        self._terms = terms
        self._entry = entry
        self._elected = elected
        self._lost = lost
        self._clock = clock
        self._candidacy = Candidacy(None, clock())
        self._term: Term | None = None
        self._refused = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leader-election", daemon=True)

    def start(self) -> None:
        """Start the candidate."""
        self._thread.start()

    def stop(self) -> None:
        """Release the lease if held, so that the next leader needn't wait."""
        self._stopped.set()
        self._thread.join()
        if self._term is not None:
            self.resign()

    def resign(self) -> None:
        """End the own term."""
        term, self._term = self._term, None
        if term is None:
            return
        term.end()
        try:
            self._store.release(term.token)
        except OSError as error:
            logger.warning("the lease can't be given back; it runs out: %s", error)
        self._lost()

    def step(self) -> None:
        """Check the lease once, and take or renew it if due."""
        term = self._term
        if term is None:
            self._try_to_take()
            return
        try:
            term.renew()
        except LeadershipLostError as error:
            if term.is_valid:  # the storage can't be read at the moment
                logger.warning("the lease can't be renewed: %s", error.message)
                return
            logger.error("term %d of this job manager is over: %s", term.token, error.message)
            term.end()
            self._term = None
            self._candidacy = Candidacy(None, self._clock())
            self._lost()

    def _try_to_take(self) -> None:
        now = self._clock()
        self._candidacy = self._candidacy.after(self._store.observed(), now)
        if not self._candidacy.may_take(self._terms, now):
            return
        token = self._candidacy.next_token
        if not self._store.take(token, self._entry):
            return
        logger.info("this job manager leads, in term %d", token)
        # from before the lease was taken, so that no candidate can have counted from an earlier time
        self._term = term = Term(HeldLease(token, now), self._terms, self._store, self._clock)
        threading.Thread(target=self._elected, args=(term,), name=f"term-{token}", daemon=True).start()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self.step()
                if self._refused:
                    logger.info("the storage of the lease can be used again")
                self._refused = False
            except OSError as error:
                if not self._refused:
                    logger.warning("the storage of the lease can't be used: %s", error)
                self._refused = True
            except Exception:
                logger.exception("the election failed; it is tried again")
            self._stopped.wait(self._terms.retry_period / 1000)
