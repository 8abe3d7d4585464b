"""Any sequence of writes, checkpoints, commits that die, crashes and savepoints leaves each row in the table once."""

from __future__ import annotations

import tempfile
from collections import Counter
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from pystate.common.errors import CommitError
from pystate.connectors.sql import SqlConnectionOptions
from tests.connectors.sql.databases import make_table, rows
from tests.connectors.sql.test_sql_sink import Interrupted, opened, sink_of

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 5)),
        st.tuples(st.just("checkpoint"), st.sampled_from([None, "before", "after"])),
        st.tuples(st.just("savepoint"), st.none()),
        st.tuples(st.just("crash"), st.sampled_from([None, "before", "after"])),
    ),
    max_size=12,
)


class Fate:
    """Lets the next COMMIT of rows die before it, or after it."""

    def __init__(self):
        self.next = None
        self._make = SqlConnectionOptions.create_engine

    def create(self, options):
        engine = self._make(options)
        real = engine.dialect.do_commit

        def commit(connection):
            fate, self.next = self.next, None
            if fate == "before":
                raise Interrupted
            real(connection)
            if fate == "after":
                raise Interrupted

        engine.dialect.do_commit = commit
        return engine


@settings(max_examples=25, deadline=None)
@given(STEPS)
def test_each_row_is_there_once_and_none_before_its_checkpoint(steps):
    fate = Fate()
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(SqlConnectionOptions, "create_engine", lambda options: fate.create(options)),
    ):
        run(steps, fate, f"sqlite:///{folder}/database")


def run(steps, fate, url):
    make_table(url, "words")
    sink = sink_of(url, "words")
    harness, snapshot = opened(sink), None
    in_checkpoint, written, checkpoint = 0, 0, 0

    def restart(dies):
        nonlocal harness, written
        harness.close()
        written = in_checkpoint  # the source is read again
        fate.next = dies
        try:
            harness = opened(sink, snapshot)
        except CommitError:
            harness = opened(sink, snapshot)
        fate.next = None

    for kind, value in [*steps, ("checkpoint", None)]:
        if kind == "write":
            before = rows(url, "words")
            harness.process_elements([("w", written + offset) for offset in range(value)])
            written += value
            assert rows(url, "words") == before, "a row is visible early"
        elif kind == "crash":
            restart(value)
        else:
            checkpoint += 1
            taken = harness.snapshot(checkpoint)
            if kind == "savepoint":
                continue
            snapshot, in_checkpoint = taken, written
            fate.next = value
            try:
                harness.notify_of_completed_checkpoint(checkpoint)
            except CommitError:
                restart(None)
            fate.next = None
        if kind != "write" and snapshot is not None:
            assert Counter(rows(url, "words")) == Counter(("w", number) for number in range(in_checkpoint))
    harness.close()
    for _ in range(2):  # resumed twice
        opened(sink, snapshot).close()
    assert Counter(rows(url, "words")) == Counter(("w", number) for number in range(written))
