"""What the real-time engine says of an application that was started without it in mind."""

from __future__ import annotations

from pystate.common.configuration.configuration import Configuration
from pystate.runtime.spark.sessions.real_time_settings import REAL_TIME_SETTINGS, application_notices, application_settings
from pystate.runtime.spark.sessions.session import session_settings


def test_an_application_of_this_engine_lacks_nothing_and_others_are_told_what():
    settings = application_settings()
    assert "spark.shuffle.streaming.readerMaxMemory" in settings
    assert not any(key.startswith("spark.sql.") for key in settings)
    assert application_notices(settings.get) == []
    assert application_notices({**settings, "spark.shuffle.streaming.readerMaxMemory": "1g"}.get) == [], "somebody's choice"
    (notice,) = application_notices({}.get)
    assert all(key in notice for key in settings)


def test_a_session_has_what_the_application_needs_and_not_what_is_good_for_the_engines_query_alone():
    """With one row a batch, what else Spark does in the session with Python takes several times as long."""
    settings = session_settings(Configuration({"execution.engine": "real-time"}))
    assert settings.items() >= application_settings(one_machine=True).items()
    assert not settings.keys() & (REAL_TIME_SETTINGS.keys() - application_settings().keys())
