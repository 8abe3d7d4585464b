"""Connectors to databases through SQLAlchemy: a sink, look-ups, a bounded source (`pip install 'pystate-spark[sql]'`)."""

from pystate.connectors.sql.connection import SqlConnectionOptions
from pystate.connectors.sql.execution import SqlExecutionOptions
from pystate.connectors.sql.sql_errors import SqlError
from pystate.connectors.sql.sql_lookup import AsyncSqlLookup, SqlLookup
from pystate.connectors.sql.sql_sink import ExactlyOnceSqlSink, SqlSink, SqlSinkBuilder
from pystate.connectors.sql.sql_source import SqlSource
from pystate.connectors.sql.target import StatementTarget, TableTarget

__all__ = [
    "AsyncSqlLookup",
    "ExactlyOnceSqlSink",
    "SqlConnectionOptions",
    "SqlError",
    "SqlExecutionOptions",
    "SqlLookup",
    "SqlSink",
    "SqlSinkBuilder",
    "SqlSource",
    "StatementTarget",
    "TableTarget",
]
