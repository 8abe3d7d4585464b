"""What tests ask a database from outside, as another reader does."""

from __future__ import annotations

from contextlib import contextmanager

import sqlalchemy

from pystate.connectors.sql import SqlConnectionOptions


@contextmanager
def connected(url):
    engine = sqlalchemy.create_engine(SqlConnectionOptions(url).url())
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def execute(url, *statements):
    with connected(url) as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def rows(url, table, columns="word, number"):
    with connected(url) as connection:
        return sorted(tuple(row) for row in connection.exec_driver_sql(f"SELECT {columns} FROM {table}"))


def make_table(url, table, key=""):
    execute(url, f"CREATE TABLE {table} (word VARCHAR(50) NOT NULL, number INTEGER{key})")
