"""A connector in a distribution of its own: rows in a SQLite file, exactly once. See docs/connectors-own.md."""

from pystate_sqlite.sink import SqliteSink

__all__ = ["SqliteSink"]
