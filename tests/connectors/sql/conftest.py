from __future__ import annotations

import itertools

import pytest

from tests.servers import mariadb
from tests.servers.postgres import postgres_server  # noqa: F401 - a fixture

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def mariadb_url(tmp_path_factory):
    reason = mariadb.missing()
    if reason is not None:
        pytest.skip(reason)
    with mariadb.running_mariadb(tmp_path_factory.mktemp("mariadb")) as server:
        yield server.url


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def url(request, tmp_path):
    """Each kind of database, by its URL."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres_server").url
    if request.param == "mariadb":
        return request.getfixturevalue("mariadb_url")
    return f"sqlite:///{tmp_path}/database"


@pytest.fixture
def table():
    """The name of a table that nobody else has."""
    return f"words_{next(_NUMBERS)}"
