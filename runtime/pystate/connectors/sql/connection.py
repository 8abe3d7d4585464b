"""The connection options of a database. Made on the driver and pickled into the slots, which connect."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pystate.common.configuration.sensitive_keys import HIDDEN
from pystate.common.distribution import pip_install
from pystate.common.errors import ConfigurationError
from pystate.connectors.secret_url import SecretUrl
from pystate.connectors.sql.jdbc_url import from_jdbc

if TYPE_CHECKING:
    from sqlalchemy import Engine
    from sqlalchemy.engine import URL

NEEDED = "Databases need SQLAlchemy 2, which is not installed."

_EXTRAS = {"postgresql": ("psycopg", "postgres"), "mysql": ("pymysql", "mysql"), "mariadb": ("pymysql", "mysql")}
"""By backend: the driver that is taken where the URL names none, and the extra that brings it."""


class SqlConnectionOptions:
    """How to connect to a database. Its password is never shown.

    Args:
        url: A URL of SQLAlchemy (`postgresql://user:password@host/database`), or JDBC (`jdbc:postgresql://host/database`).
        user_name: Replaces that of the URL.
        password: Replaces that of the URL.
        url_variable: The environment variable with the URL, in the slots; the program then doesn't contain it.
        url_file: The file with the URL, in the slots.
        engine_options: More arguments of SQLAlchemy's `create_engine`: `{"connect_args": {...}}`.

    Raises:
        ConfigurationError: Not exactly one of the three was given.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        user_name: str | None = None,
        password: str | None = None,
        url_variable: str | None = None,
        url_file: str | None = None,
        engine_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._source = SecretUrl("a database", url, url_variable, url_file)
        self.user_name = user_name
        self._password = password
        self.engine_options = dict(engine_options or {})

    def __repr__(self) -> str:
        """Return a text without secrets."""
        return f"SqlConnectionOptions({self.shown() if self.has_url else self._source.shown()})"

    def url(self) -> URL:
        """Return the URL, with its driver.

        Raises:
            ConfigurationError: There is none, or it can't be parsed.
        """
        sqlalchemy = _sqlalchemy()
        text = from_jdbc(self._source.read())
        try:
            url: URL = sqlalchemy.make_url(text)
        except Exception:  # noqa: BLE001 - its message and its cause repeat the URL
            url = None  # type: ignore[assignment]
        if url is None:
            message = "The URL of the database can't be understood."
            raise ConfigurationError(message, where=self._source.place, hint="postgresql://user:password@host:5432/database")
        if self.user_name is not None:
            url = url.set(username=self.user_name)
        if self._password is not None:
            url = url.set(password=self._password)
        driver, extra = _EXTRAS.get(url.drivername, (None, None))
        if driver is not None:
            url = url.set(drivername=f"{url.drivername}+{driver}")
        named = url.drivername.partition("+")[2]
        if extra is not None and importlib.util.find_spec(named) is None:
            message = f"{url.get_backend_name()} needs the driver {named}, which is not installed."
            raise ConfigurationError(message, where=self._source.place, hint=pip_install(extra))
        return url

    def shown(self) -> str:
        """Return the URL without its password, for display."""
        url = self.url()
        if url.query:
            url = url.set(query=dict.fromkeys(url.query, HIDDEN))  # some drivers accept passwords there
        return url.render_as_string(hide_password=True)

    def password(self) -> str | None:
        """Return the password, for hiding it; None if there is none."""
        found = self.url().password
        return None if found is None else str(found)

    @property
    def has_url(self) -> bool:
        """Whether the program contains the URL, so that it is known outside of the slots."""
        return self._source.is_known

    def create_engine(self, connections: int = 1) -> Engine:
        """Return an engine.

        Args:
            connections: The maximum number of concurrent connections.

        Raises:
            ConfigurationError: There is no URL, or a package isn't installed.
        """
        sqlalchemy = _sqlalchemy()
        url = self.url()
        options: dict[str, Any] = {"pool_pre_ping": True, "hide_parameters": True}
        if url.get_backend_name() != "sqlite":
            options |= {"pool_size": connections, "max_overflow": 0}
        try:
            engine: Engine = sqlalchemy.create_engine(url, **(options | self.engine_options))
        except (sqlalchemy.exc.ArgumentError, ImportError, TypeError) as error:
            message = f"SQLAlchemy can't use {url.drivername}: {error}"
            raise ConfigurationError(message, where=self._source.place, hint="install its driver, or mend the URL") from None
        if url.get_backend_name() == "postgresql":
            sqlalchemy.event.listen(engine, "connect", _wait_for_disk)
        return engine


def _sqlalchemy() -> Any:
    try:
        import sqlalchemy
        import sqlalchemy.event
        import sqlalchemy.exc
    except ImportError as error:
        raise ConfigurationError(NEEDED, hint=pip_install("sql")) from error
    return sqlalchemy


def _wait_for_disk(connection: Any, _: Any) -> None:
    """Make a COMMIT durable before it is answered: otherwise a crash of the server could undo it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('synchronous_commit')")
        if cursor.fetchone() == ("off",):
            cursor.execute("SET synchronous_commit = on")
    connection.commit()
