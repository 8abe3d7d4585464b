"""Sinks whose records wait in the checkpoint."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystate.common.errors import CommitError, CorruptSnapshotError
from pystate.connectors.sink import Sink, SupportsCommitter
from pystate.connectors.write_ahead import WriteAheadCommitter, WriteAheadWriter, records_of
from pystate.testing import SinkTestHarness

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def written(records):
    writer = WriteAheadWriter(lambda element, _: [element])
    for record in records:
        writer.write(record, None)
    writer.flush(False)
    committables = writer.prepare_commit()
    assert writer.prepare_commit() == []
    writer.close()
    return committables


@given(st.lists(PLAIN, max_size=20))
def test_records_come_back_as_they_went(records):
    committables = written(records)
    assert len(committables) == bool(records)
    assert [record for one in committables for (record,) in records_of(one)] == records


def test_more_than_memory_takes_comes_back_in_order():
    records = [f"{number}-{'x' * 1000}" for number in range(20_000)]
    (committable,) = written(records)
    assert len(committable["chunks"]) > 10
    assert [record for (record,) in records_of(committable)] == records


@pytest.mark.parametrize(
    "damage",
    [
        {"version": 3},
        {"codec": "odd"},
        {"records": 4},
        {"chunks": []},
    ],
)
def test_a_committable_that_is_not_whole_is_refused(damage):
    (committable,) = written([1, 2, 3])
    with pytest.raises(CorruptSnapshotError):
        list(records_of({**committable, **damage}))


class Table(Sink, SupportsCommitter):
    """What is written to a dict, and the ids that were: in one step, or not at all."""

    rows: Counter = Counter()
    ids: set = set()
    dies: list = []

    def create_writer(self, context):
        return WriteAheadWriter(lambda element, _: element)

    def create_committer(self, context):
        return Transaction()


class Transaction(WriteAheadCommitter):
    def write_once(self, commit_id, records, request):
        rows = Counter(records)
        if commit_id in Table.ids:
            request.signal_already_committed()
            return False
        fate = Table.dies.pop(0) if Table.dies else None
        if fate == "before":
            raise ConnectionError(fate)
        Table.rows += rows
        Table.ids.add(commit_id)
        if fate == "after":
            raise ConnectionError(fate)
        if fate == "again":
            request.retry_later()
            return True
        return False


@pytest.mark.parametrize("fate", ["before", "after", "again", None])
def test_a_commit_that_dies_is_repeated_and_counts_once(fate):
    Table.rows, Table.ids, Table.dies = Counter(), set(), [fate]
    with SinkTestHarness(Table()) as harness:
        harness.open()
        harness.process_elements(["a", "b"])
        snapshot = harness.snapshot(1)
        if fate in ("before", "after"):
            with pytest.raises(CommitError):
                harness.notify_of_completed_checkpoint(1)
        else:
            harness.notify_of_completed_checkpoint(1)
    for _ in range(2):
        with SinkTestHarness(Table()) as harness:
            harness.initialize_state(snapshot)
            harness.open()
    assert Table.rows == Counter("ab")
