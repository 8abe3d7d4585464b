"""Nobody speaks to a job's Spark without a proof: what we start says so, and of what others started people are told."""

import os
import tempfile

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import ConfigurationError, ExternalSystemError
from pystate.runtime.spark.sessions import authentication
from pystate.runtime.spark.sessions.authentication import (
    AUTHENTICATE,
    NETWORK_CRYPTO,
    SASL_FALLBACK,
    SOCKET_FOLDER,
    SSL_RPC,
    authentication_notices,
    check_encryption,
    encryption_settings,
    local_settings,
)
from pystate.runtime.spark.sessions.local_dir import socket_folder
from pystate.runtime.spark.sessions.session import session_settings
from pystate.runtime.spark.workers.python_daemons import UNIX_SOCKETS_KEY

LONGEST_PATH = 107
NAME_OF_A_SOCKET = len("/.89c061c8-7a0f-4b82-8b6d-6442562a60c8.sock")


@pytest.mark.parametrize("engine", ["micro-batch", "real-time"])
def test_a_local_master_asks_for_a_proof_and_has_its_workers_on_unix_sockets(engine):
    settings = session_settings(Configuration({"execution.engine": engine}))
    assert settings[AUTHENTICATE] == settings[UNIX_SOCKETS_KEY] == "true"
    assert os.stat(settings[SOCKET_FOLDER]).st_mode & 0o777 == 0o700
    assert not [key for key in settings if "secret" in key], "Spark makes its own, in memory"


def test_what_the_user_says_counts():
    settings = session_settings(Configuration({AUTHENTICATE: "false", SOCKET_FOLDER: "/run/mine"}))
    assert settings[AUTHENTICATE] == "false"
    assert settings[SOCKET_FOLDER] == "/run/mine"
    assert SOCKET_FOLDER not in local_settings({UNIX_SOCKETS_KEY: "false"})


def test_the_path_of_a_socket_is_never_too_long(tmp_path, monkeypatch):
    deep = tmp_path / ("x" * 80)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    folder = socket_folder()
    assert len(folder) + NAME_OF_A_SOCKET <= LONGEST_PATH
    assert os.stat(folder).st_mode & 0o777 == 0o700


def test_no_place_for_sockets_is_said_with_what_to_do(monkeypatch):
    def no_room():
        raise PermissionError(13, "Permission denied", "/tmp")  # noqa: S108

    monkeypatch.setattr(authentication, "socket_folder", no_room)
    with pytest.raises(ExternalSystemError) as error:
        local_settings({})
    assert SOCKET_FOLDER in error.value.hint


@pytest.mark.parametrize("real_time", [False, True])
def test_a_local_master_that_asks_for_a_proof_needs_no_word(real_time):
    assert authentication_notices({"spark.master": "local[4,4]", AUTHENTICATE: "true"}.get, real_time=real_time) == []


@pytest.mark.parametrize(
    ("master", "whom", "how"),
    [
        ("local[4,4]", "every user of this machine", "where the session is made"),
        ("spark://10.0.0.1:7077", "whoever reaches its ports", "spark.authenticate.secret in flink-conf.toml"),
    ],
)
def test_an_application_that_asks_for_none_is_told_of_with_the_lines_to_set(master, whom, how):
    (notice,) = authentication_notices({"spark.master": master}.get, real_time=False)
    assert whom in notice
    assert f"set {AUTHENTICATE} = true" in notice
    assert how in notice


def test_sparks_streaming_shuffle_on_a_cluster_is_told_of():
    settings = {"spark.master": "spark://10.0.0.1:7077", AUTHENTICATE: "true"}
    (notice,) = authentication_notices(settings.get, real_time=True)
    assert "streaming shuffle listens on all addresses" in notice
    assert authentication_notices(settings.get, real_time=False) == []


CLUSTER = {"spark.master": "spark://10.0.0.1:7077"}


@pytest.mark.parametrize(
    "settings",
    [
        {"spark.master": "local[2]"},
        {**CLUSTER, **encryption_settings(), AUTHENTICATE: "true"},
        {**CLUSTER, SSL_RPC: "true"},
    ],
)
def test_an_application_that_encrypts_what_it_sends_will_do(settings):
    check_encryption(settings.get, real_time=False)


@pytest.mark.parametrize(
    ("settings", "real_time", "told"),
    [
        (CLUSTER, False, NETWORK_CRYPTO),
        ({**CLUSTER, **encryption_settings()}, False, f"it lacks {AUTHENTICATE} = true"),
        ({**CLUSTER, NETWORK_CRYPTO: "true", AUTHENTICATE: "true"}, False, SASL_FALLBACK),
        ({**CLUSTER, SSL_RPC: "true", NETWORK_CRYPTO: "true", AUTHENTICATE: "true"}, True, "streaming shuffle"),
    ],
)
def test_an_application_that_sends_records_as_they_are_is_refused_where_they_must_be_encrypted(settings, real_time, told):
    with pytest.raises(ConfigurationError, match=told) as caught:
        check_encryption(settings.get, real_time=real_time)
    assert caught.value.where == "security.ssl.internal.enabled"
