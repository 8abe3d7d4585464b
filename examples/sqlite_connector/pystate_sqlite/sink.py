"""The sink: rows wait in the checkpoint, and are written with its mark in one transaction."""

import sqlite3
import time
from contextlib import closing

from pystate.connectors.sink import Sink, SupportsCommitter
from pystate.connectors.write_ahead import WriteAheadCommitter, WriteAheadWriter
from pystate_sqlite.options import SqliteOptions


class SqliteSink(Sink, SupportsCommitter):
    """Inserts each element, a tuple or a Row, into a table: exactly once, when the checkpoint that holds it is complete.

    Args:
        path: The file. All slots write to it, so they are on its machine.
        statement: An INSERT with a `?` for each column.
    """

    def __init__(self, path, statement):
        self.path, self.statement = str(path), statement  # settings only: the sink is pickled into the slots

    def create_writer(self, context):
        return WriteAheadWriter[tuple](lambda element, _: list(element))

    def create_committer(self, context):
        timeout_ms = context.get_job_configuration().get(SqliteOptions.BUSY_TIMEOUT)
        return SqliteCommitter(self.path, self.statement, timeout_ms / 1000)


class SqliteCommitter(WriteAheadCommitter):
    def __init__(self, path, statement, timeout):
        self.path, self.statement, self.timeout = path, statement, timeout

    def write_once(self, commit_id, records, request):
        try:
            with closing(sqlite3.connect(self.path, timeout=self.timeout)) as database, database:
                database.execute("CREATE TABLE IF NOT EXISTS pystate_commits (id TEXT PRIMARY KEY, at REAL)")
                mark = database.execute("INSERT OR IGNORE INTO pystate_commits VALUES (?, ?)", (commit_id, time.time()))
                if mark.rowcount == 0:  # an earlier attempt has written it
                    request.signal_already_committed()
                else:
                    database.executemany(self.statement, records)
        except sqlite3.OperationalError as error:  # the file is locked, the disk is full
            request.retry_later(error)
            return True
        return False
