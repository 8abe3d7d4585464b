"""When a lease holds and when it may be taken: decisions without clock, files or threads.

Clocks of two machines are never compared. Who holds the lease stops to act a deadline after the *beginning* of its last
renewal; who waits for it counts from the moment when it *saw* that renewal, which is later, and waits longer.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.job_manager_options import HighAvailabilityOptions
from pystate.common.errors import ConfigurationError


@dataclass(frozen=True)
class LeaseTerms:
    """Times in milliseconds.

    Attributes:
        duration: Without a renewal for so long, the lease may be taken.
        renew_deadline: So long after its last renewal the holder still acts.
        retry_period: The time between two renewals, and between two looks.
    """

    duration: int
    renew_deadline: int
    retry_period: int

    @staticmethod
    def of(configuration: Configuration) -> LeaseTerms:
        """Return what a configuration says.

        Raises:
            ConfigurationError: Two job managers would act at a time, or the lease would run out between two renewals.
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
    """The lease of the one that leads.

    Attributes:
        token: Higher than that of all leaders before.
        renewed_at: When the last renewal began, on the holder's own clock.
    """

    token: int
    renewed_at: int

    def is_valid(self, terms: LeaseTerms, now: int) -> bool:
        """Return whether the holder may still act."""
        return now < self.renewed_at + terms.renew_deadline

    def is_lost(self, highest_token: int) -> bool:
        """Return whether another one holds it by now."""
        return highest_token != self.token


@dataclass(frozen=True)
class ObservedLease:
    """The lease as a candidate sees it: the holder's latest renewal.

    Attributes:
        token: The holder's.
        mark: Another one at each renewal.
        released: Whether the holder has given the lease back.
    """

    token: int
    mark: str
    released: bool = False


@dataclass(frozen=True)
class Candidacy:
    """What one that waits for the lease has seen.

    Attributes:
        seen: The latest renewal; None where there never was a holder.
        since: Since when it has been the last one, on the candidate's own clock.
    """

    seen: ObservedLease | None
    since: int

    def after(self, seen: ObservedLease | None, now: int) -> Candidacy:
        """Return the candidacy after another look."""
        return self if seen == self.seen else Candidacy(seen, now)

    def may_take(self, terms: LeaseTerms, now: int) -> bool:
        """Return whether the lease is free."""
        return self.seen is None or self.seen.released or now >= self.since + terms.duration

    @property
    def next_token(self) -> int:
        """The token to take the lease with."""
        return 1 if self.seen is None else self.seen.token + 1
