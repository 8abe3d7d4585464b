from __future__ import annotations

from pystate.common.configuration.configuration import Configuration
from pystate.ops.jobmanager.job_store import EndedJob, JobStoreTerms


def test_the_defaults_are_flinks():
    assert JobStoreTerms.of(Configuration()) == JobStoreTerms(3_600_000, 2**31 - 1) == JobStoreTerms()
    settings = Configuration({"jobstore.expiration-time": "60", "jobstore.max-capacity": "2"})
    assert JobStoreTerms.of(settings) == JobStoreTerms(60_000, 2)


def test_a_job_expires_with_its_time_and_not_before():
    terms = JobStoreTerms(expiration_ms=100)

    assert terms.expired([]) == []
    assert terms.expired([EndedJob("a", 0, seen_for_ms=99), EndedJob("b", 1, seen_for_ms=98)]) == []
    assert terms.expired([EndedJob("a", 0, seen_for_ms=100), EndedJob("b", 1, seen_for_ms=99)]) == ["a"]


def test_what_ended_first_goes_first_where_there_is_no_room():
    terms = JobStoreTerms(expiration_ms=10_000, max_capacity=2)

    def seen_at_once(**ends: int) -> list[EndedJob]:
        return [EndedJob(job_id, end_time, seen_for_ms=7) for job_id, end_time in ends.items()]

    assert terms.expired(seen_at_once(a=5, b=1, c=3, d=9)) == ["c", "b"]
    assert JobStoreTerms(10_000, 0).expired(seen_at_once(a=5)) == ["a"]


def test_what_was_seen_to_end_first_goes_first_whatever_the_clock_said():
    ended = [EndedJob("later", 1, seen_for_ms=5), EndedJob("earlier", 7_200_000, seen_for_ms=6)]

    assert JobStoreTerms(10_000, 1).expired(ended) == ["earlier"]
