"""The database sink with the names of `pyflink.datastream.connectors.jdbc`, on SQLAlchemy instead of JDBC."""

from __future__ import annotations

from pystate.common.errors import ConfigurationError, JobGraphError
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.connectors.sql import (
    ExactlyOnceSqlSink,
    SqlConnectionOptions,
    SqlExecutionOptions,
    SqlSink,
    StatementTarget,
)

__all__ = ["JdbcConnectionOptions", "JdbcExecutionOptions", "JdbcSink"]


class JdbcSink(SqlSink):
    """Runs a statement for each row, in batches: `stream.add_sink(JdbcSink.sink(...))`."""

    @staticmethod
    def sink(
        sql: str,
        type_info: TypeInformation,
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
    ) -> JdbcSink:
        """Return an at-least-once sink, like Flink's; with an upsert statement it is effectively exactly-once.

        Args:
            sql: An INSERT, UPDATE, ... with a `?` for each field of a row.
            type_info: The type of the rows.
            jdbc_connection_options: How to connect to the database.
            jdbc_execution_options: How rows are batched.
        """
        target = _target(sql, type_info)
        return JdbcSink(jdbc_connection_options.to_sql(), target, _execution(jdbc_execution_options))

    @staticmethod
    def exactly_once_sink(
        sql: str,
        type_info: TypeInformation,
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
    ) -> ExactlyOnceSqlSink:
        """Return an exactly-once sink: rows are committed with their checkpoint (in Flink's Java API over XA).

        Args:
            sql: See `sink`.
            type_info: See `sink`.
            jdbc_connection_options: See `sink`.
            jdbc_execution_options: Only its batch size is used.
        """
        target = _target(sql, type_info)
        return ExactlyOnceSqlSink(jdbc_connection_options.to_sql(), target, _execution(jdbc_execution_options))


class JdbcConnectionOptions:
    """How to connect to a database; made by `JdbcConnectionOptionsBuilder`.

    Args:
        url: The URL of JDBC or SQLAlchemy.
        driver_name: The class of the JDBC driver; kept, but not used.
        user_name: Replaces that of the URL.
        password: Replaces that of the URL.
    """

    def __init__(
        self, url: str, driver_name: str | None = None, user_name: str | None = None, password: str | None = None
    ) -> None:
        self._url = url
        self._driver_name = driver_name
        self._user_name = user_name
        self._password = password

    def __repr__(self) -> str:
        """Return a text without secrets."""
        return f"JdbcConnectionOptions({self.to_sql()!r})"

    def get_db_url(self) -> str:
        """Return the URL as given."""
        return self._url

    def get_driver_name(self) -> str | None:
        """Return the class of the JDBC driver, which isn't used."""
        return self._driver_name

    def get_user_name(self) -> str | None:
        """Return the user."""
        return self._user_name

    def get_password(self) -> str | None:
        """Return the password."""
        return self._password

    def to_sql(self) -> SqlConnectionOptions:
        """Return the same options for SQLAlchemy."""
        return SqlConnectionOptions(self._url, user_name=self._user_name, password=self._password)

    class JdbcConnectionOptionsBuilder:
        """Makes them."""

        def __init__(self) -> None:
            self._url: str | None = None
            self._driver_name: str | None = None
            self._user_name: str | None = None
            self._password: str | None = None

        def with_url(self, url: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Set the URL."""
            self._url = url
            return self

        def with_driver_name(self, driver_name: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Set the class of the JDBC driver, which isn't used here."""
            self._driver_name = driver_name
            return self

        def with_user_name(self, user_name: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Set the user."""
            self._user_name = user_name
            return self

        def with_password(self, password: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Set the password."""
            self._password = password
            return self

        def build(self) -> JdbcConnectionOptions:
            """Return the options.

            Raises:
                ConfigurationError: There is no URL, or it is of an unsupported database.
            """
            if self._url is None:
                message = "JdbcConnectionOptions need a URL."
                raise ConfigurationError(message, hint='with_url("jdbc:postgresql://host/database")')
            made = JdbcConnectionOptions(self._url, self._driver_name, self._user_name, self._password)
            made.to_sql().url()
            return made


class JdbcExecutionOptions:
    """How rows are batched; made by its builder.

    Args:
        options: The values.
    """

    def __init__(self, options: SqlExecutionOptions) -> None:
        self.options = options

    def get_batch_interval_ms(self) -> int:
        """Return how long a batch waits; 0: until it is full or a checkpoint comes."""
        return self.options.batch_interval_ms

    def get_batch_size(self) -> int:
        """Return the number of rows per batch."""
        return self.options.batch_size

    def get_max_retries(self) -> int:
        """Return how often a batch is retried."""
        return self.options.max_retries

    @staticmethod
    def defaults() -> JdbcExecutionOptions:
        """Return the defaults: batches of 5000, no interval, three retries."""
        return JdbcExecutionOptions(SqlExecutionOptions())

    @staticmethod
    def builder() -> JdbcExecutionOptions.Builder:
        """Return a builder."""
        return JdbcExecutionOptions.Builder()

    class Builder:
        """Makes them."""

        def __init__(self) -> None:
            self._figures: dict[str, int] = {}

        def with_batch_size(self, size: int) -> JdbcExecutionOptions.Builder:
            """Set the number of rows per batch."""
            self._figures["batch_size"] = size
            return self

        def with_batch_interval_ms(self, interval_ms: int) -> JdbcExecutionOptions.Builder:
            """Set how long a batch waits for more rows."""
            self._figures["batch_interval_ms"] = interval_ms
            return self

        def with_max_retries(self, max_retries: int) -> JdbcExecutionOptions.Builder:
            """Set how often a batch is retried."""
            self._figures["max_retries"] = max_retries
            return self

        def build(self) -> JdbcExecutionOptions:
            """Return the options."""
            return JdbcExecutionOptions(SqlExecutionOptions(**self._figures))


def _target(sql: str, type_info: TypeInformation) -> StatementTarget:
    if not isinstance(type_info, TypeInformation) or type_info.kind is not TypeKind.ROW:
        message = f"JdbcSink takes the type of rows, not {type_info!r}."
        raise JobGraphError(message, hint="Types.ROW([...]), or Types.ROW_NAMED([...], [...])")
    return StatementTarget(sql, columns=type_info.get_field_names())


def _execution(options: JdbcExecutionOptions | None) -> SqlExecutionOptions:
    return (options or JdbcExecutionOptions.defaults()).options
