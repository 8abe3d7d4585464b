"""What the real-time engine says of an application that was started without it in mind."""

from __future__ import annotations

from pystate.spark.real_time.settings import application_notices, application_settings


def test_an_application_of_this_engine_lacks_nothing_and_others_are_told_what():
    settings = application_settings()
    assert "spark.shuffle.streaming.readerMaxMemory" in settings
    assert not any(key.startswith("spark.sql.") for key in settings)
    assert application_notices(settings.get) == []
    assert application_notices({**settings, "spark.shuffle.streaming.readerMaxMemory": "1g"}.get) == [], "somebody's choice"
    (notice,) = application_notices({}.get)
    assert all(key in notice for key in settings)
