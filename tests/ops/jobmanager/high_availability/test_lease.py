from __future__ import annotations

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import ConfigurationError
from pystate.ops.jobmanager.high_availability.lease import Candidacy, HeldLease, LeaseTerms, ObservedLease

TERMS = LeaseTerms(duration=15, renew_deadline=10, retry_period=2)


def test_the_holder_acts_until_the_deadline_and_not_a_moment_longer():
    lease = HeldLease(token=4, renewed_at=100)

    assert lease.is_valid(TERMS, 109)
    assert not lease.is_valid(TERMS, 110)
    assert (lease.is_lost(4), lease.is_lost(5)) == (False, True)


def test_a_lease_that_nobody_ever_held_is_free():
    candidacy = Candidacy(None, 0).after(None, 3)

    assert candidacy.may_take(TERMS, 3)
    assert candidacy.next_token == 1


def test_a_candidate_counts_from_the_moment_it_saw_the_sign_of_life():
    candidacy = Candidacy(None, 0).after(ObservedLease(7, "a"), 1000)

    assert not candidacy.after(ObservedLease(7, "a"), 1014).may_take(TERMS, 1014)
    assert candidacy.after(ObservedLease(7, "a"), 1015).may_take(TERMS, 1015)
    assert candidacy.next_token == 8


@pytest.mark.parametrize("seen", [ObservedLease(7, "b"), ObservedLease(8, "a")])
def test_a_renewal_begins_the_wait_anew(seen):
    candidacy = Candidacy(None, 0).after(ObservedLease(7, "a"), 1000).after(seen, 1014)

    assert not candidacy.may_take(TERMS, 1028)
    assert candidacy.may_take(TERMS, 1029)


def test_a_lease_that_was_given_back_is_free_at_once():
    assert Candidacy(None, 0).after(ObservedLease(7, "a", released=True), 1).may_take(TERMS, 1)


def test_the_terms_come_from_the_configuration():
    keys = ("lease-duration", "renew-deadline", "retry-period")
    values = dict(zip((f"high-availability.filesystem.{key}" for key in keys), ("3 s", "2 s", "500 ms"), strict=True))

    assert LeaseTerms.of(Configuration(values)) == LeaseTerms(3000, 2000, 500)
    assert LeaseTerms.of(Configuration()) == LeaseTerms(15_000, 10_000, 2_000)


@pytest.mark.parametrize(("duration", "deadline", "period"), [(10, 10, 5), (15, 10, 10), (15, 20, 5)])
def test_terms_with_which_two_could_act_at_a_time_are_refused(duration, deadline, period):
    prefix = "high-availability.filesystem."
    values = {"lease-duration": duration, "renew-deadline": deadline, "retry-period": period}

    with pytest.raises(ConfigurationError, match="must be shorter"):
        LeaseTerms.of(Configuration({prefix + key: f"{value} s" for key, value in values.items()}))
