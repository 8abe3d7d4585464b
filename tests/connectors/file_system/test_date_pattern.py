"""Folders by the clock: Java's patterns. What is expected was written down by Java 17's DateTimeFormatter."""

from __future__ import annotations

import pytest

from pystate.common.errors import JobGraphError
from pystate.connectors.file_system.bucket_assigner import BucketAssigner
from pystate.connectors.file_system.date_pattern import DatePattern, zone_of

AT = 1_709_221_445_678  # 2024-02-29T15:44:05.678Z


@pytest.mark.parametrize(
    ("pattern", "zone", "text"),
    [
        ("yyyy-MM-dd--HH", "UTC", "2024-02-29--15"),
        ("yyyy-MM-dd--HH", "Europe/Berlin", "2024-02-29--16"),
        ("yyyy-MM-dd--HH", "GMT-08:00", "2024-02-29--07"),
        ("yy/M/d H:m:s", "Z", "24/2/29 15:44:5"),
        ("uuuu'T'DDD hh''kk SSS S", "+05:30", "2024T060 09'21 678 6"),
        ("'year='yyyy/'it''s'", "UTC", "year=2024/it's"),
    ],
)
def test_moments_are_written_as_java_writes_them(pattern, zone, text):
    assert DatePattern(pattern).text(AT, zone_of(zone)) == text


@pytest.mark.parametrize(("pattern", "zone"), [("yyyy-Q", None), ("MMM", None), ("'open", None), ("yyyy", "Mars/North")])
def test_what_is_not_known_is_refused_when_the_program_is_built(pattern, zone):
    with pytest.raises(JobGraphError):
        BucketAssigner.date_time_bucket_assigner(pattern, zone)


def test_the_folder_follows_the_clock():
    class At:
        def __init__(self, now):
            self.now = now

        def current_processing_time(self):
            return self.now

    assigner = BucketAssigner.date_time_bucket_assigner("HH:mm:ss.SSS", "UTC")
    coarse = BucketAssigner.date_time_bucket_assigner("HH:mm", "UTC")
    seen = [
        (assigner.get_bucket_id(None, At(AT + step)), coarse.get_bucket_id(None, At(AT + step)))
        for step in (0, 1, 60_000, 0)
    ]
    assert seen == [
        ("15:44:05.678", "15:44"),
        ("15:44:05.679", "15:44"),
        ("15:45:05.678", "15:45"),
        ("15:44:05.678", "15:44"),
    ]
