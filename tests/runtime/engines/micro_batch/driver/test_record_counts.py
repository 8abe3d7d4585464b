"""How many records a job has read and written, of whatever sources."""

from __future__ import annotations

from pystate.runtime.engines.micro_batch.driver.record_counts import RecordCounter


def counted(*tasks):
    counter = RecordCounter()
    for uid, read, written in tasks:
        counter.add(uid, read, written)
    return counter


def test_what_a_source_in_slots_writes_is_what_the_job_reads():
    counter = counted(("made", 0, 7), ("made", 0, 3), ("count", 10, 4))
    plain = counter.to_plain(["made", "count"], {"made"})
    assert (plain["records_in"], plain["records_out"]) == (10, 4)
    assert plain["records"]["made"] == {"read-records": 0, "write-records": 10}


def test_beside_a_source_of_sparks_both_count():
    plain = counted(("words", 5, 5), ("made", 0, 10), ("count", 15, 4)).to_plain(["words", "made", "count"], {"made"})
    assert (plain["records_in"], plain["records_out"]) == (15, 4)


def test_a_job_that_has_not_begun_has_read_nothing():
    assert RecordCounter().to_plain([]) == {"records_in": 0, "records_out": 0, "records": {}}
    assert RecordCounter().to_plain(["count"])["records_in"] == 0
