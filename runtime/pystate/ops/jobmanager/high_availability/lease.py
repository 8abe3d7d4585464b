"""Decides when a lease is valid and when it may be taken; without clock, files or threads.

Clocks of two machines are never compared. The holder of the lease stops acting at a deadline after the *beginning* of its
last renewal; a candidate counts from the time when it *saw* that renewal, which is later, and waits longer.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.job_manager_options import HighAvailabilityOptions
from pystate.common.errors import ConfigurationError


@dataclass(frozen=True)
class LeaseTerms:
    """Times in milliseconds.

    Attributes:
        duration: The lease may be taken after this time without a renewal.
        renew_deadline: How long the holder may act after its last renewal.
        retry_period: The time between two renewals, and between two checks.
    """

    duration: int
    renew_deadline: int
    retry_period: int

    @staticmethod
    def of(configuration: Configuration) -> LeaseTerms:
        """Return the terms of a configuration.

        Raises:
            ConfigurationError: Two job managers could act at the same time, or the lease would expire between two renewals.
        """
        options = HighAvailabilityOptions
        terms = LeaseTerms(
            configuration.get(options.LEASE_DURATION),
            configuration.get(options.RENEW_DEADLINE),
            configuration.get(options.RETRY_PERIOD),
        )
        if not terms.retry_period < terms.renew_deadline < terms.duration:
            message = (
                f"The retry period ({terms.retry_period} ms) must be shorter than the renew deadline "
                f"({terms.renew_deadline} ms), and that shorter than the lease ({terms.duration} ms)."
            )
            raise ConfigurationError(message, where="high-availability.filesystem.*")
        return terms


@dataclass(frozen=True)
class HeldLease:
    """The lease of the leader.

    Attributes:
        token: The fencing token, higher than those of all earlier leaders.
        renewed_at: When the last renewal began, on the holder's own clock.
    """

    token: int
    renewed_at: int

    def is_valid(self, terms: LeaseTerms, now: int) -> bool:
        """Return whether the holder may still act."""
        return now < self.renewed_at + terms.renew_deadline

    def is_lost(self, highest_token: int) -> bool:
        """Return whether another one holds it now."""
        return highest_token != self.token


@dataclass(frozen=True)
class ObservedLease:
    """The lease as a candidate sees it: the holder's latest renewal.

    Attributes:
        token: The token of the holder.
        mark: Changes with each renewal.
        released: Whether the holder has released the lease.
    """

    token: int
    mark: str
    released: bool = False


@dataclass(frozen=True)
class Candidacy:
    """The observations of a candidate.

    Attributes:
        seen: The latest renewal; None if there never was a holder.
        since: When it was first seen, on the candidate's own clock.
    """

    seen: ObservedLease | None
    since: int

    def after(self, seen: ObservedLease | None, now: int) -> Candidacy:
        """Return the candidacy after another observation."""
        return self if seen == self.seen else Candidacy(seen, now)

    def may_take(self, terms: LeaseTerms, now: int) -> bool:
        """Return whether the lease is free."""
        return self.seen is None or self.seen.released or now >= self.since + terms.duration

    @property
    def next_token(self) -> int:
        """The token to take the lease with."""
        return 1 if self.seen is None else self.seen.token + 1
