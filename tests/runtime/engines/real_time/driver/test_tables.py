"""A followed table into two others, one appended to and one whose rows are replaced, over killed slots; without Spark."""

from __future__ import annotations

import random
import time
from collections import Counter

import pytest

from pystate.common import Row, Types
from pystate.testing import SinkTestHarness
from tests.connectors.lakehouse.conftest import FORMATS
from tests.connectors.lakehouse.tables import ROW
from tests.faults.processes import needs_proc
from tests.runtime.engines.real_time.driver.jobs import RealTimeJob
from tests.runtime.engines.real_time.driver.programs import GatedNumbers
from tests.waiting import wait_until

OFTEN = {"restart-strategy.fixed-delay.attempts": "100000"}


def counting(source, appended, replaced):
    """Return the program: how often each word has come, each time and the last time."""

    def program(environment):
        rows = environment.from_source(source, None, "table").uid("table")
        keyed = rows.key_by(lambda row: row.word, Types.STRING())
        totals = keyed.reduce(lambda one, other: Row(word=one.word, n=one.n + other.n)).uid("totals").map(tuple, ROW)
        totals.sink_to(appended).uid("appended")
        totals.key_by(lambda row: row[0], Types.STRING()).map(tuple, ROW).sink_to(replaced).uid("replaced")

    return program


class Tables:
    """What the job reads and writes, seen from outside."""

    def __init__(self, read, appended, replaced):
        self.read, self.appended, self.replaced = read, appended, replaced
        self.added = Counter()

    def add(self, words):
        self.read.write_beside([{"word": word, "n": 1} for word in words])
        self.added.update(words)

    def are_done(self):
        appended = Counter(self.appended.rows())
        assert set(appended.values()) <= {1}, "doubled"
        counts = {(word, n) for word, count in self.added.items() for n in range(1, count + 1)}
        assert appended.keys() <= counts, "a row that never was"
        rows = self.replaced.rows()  # once: a commit may come in between
        replaced = dict(rows)
        assert len(replaced) == len(rows), "a key twice"
        return appended.keys() == counts and replaced == dict(self.added)


@needs_proc
@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "appended", "replaced"), [("delta", "iceberg", "delta"), ("iceberg", "delta", "iceberg")], ids=list(FORMATS)
)
def test_slots_are_killed_and_each_row_counts_once(tmp_path, source, appended, replaced, kills=4):
    order = random.Random(kills)
    names = {"from": source, "appended": appended, "replaced": replaced}
    for folder in names:
        (tmp_path / folder).mkdir()
    read, appends, replaces = (FORMATS[name](tmp_path / folder) for folder, name in names.items())
    for made in (read, appends, replaces):
        with SinkTestHarness(made.sink()) as sink:
            sink.open()  # makes the table
    tables = Tables(read, appends, replaces)
    upserts = replaces.sink(lambda builder: builder.with_upsert_by("word"))
    job = RealTimeJob(tmp_path / "job", counting(read.following(), appends.sink(), upserts), **OFTEN)
    try:
        tables.add("abc")
        wait_until(tables.are_done)
        for kill in range(kills):
            tables.add(order.choices("abcdef", k=order.randrange(1, 6)))
            time.sleep(order.random() * 0.5)
            job.kill_slot(order.randrange(2))
            tables.add(order.choices("abcdef", k=2))
            if order.random() < 0.3:
                read.rewrite()
            job.await_attempt(kill + 1)
            wait_until(tables.are_done)
    finally:
        job.close()
    assert tables.are_done()


def replacing(source, sink, *, shuffled=True):
    """Return the program: numbers into partitions by their last digit."""

    def program(environment):
        read = environment.from_source(source, None, "numbers").uid("numbers")
        (read.rebalance() if shuffled else read).map(by_digit, ROW).sink_to(sink).uid("sink")

    return program


def by_digit(number):
    return Row(word=str(number % 10), n=number)


@needs_proc
@pytest.mark.parametrize("late", [None, 0, 1])
@pytest.mark.parametrize("name", FORMATS)
def test_a_job_that_ends_replaces_partitions_once_though_a_slot_is_killed(tmp_path, name, late):
    (tmp_path / "table").mkdir()
    tables = FORMATS[name](tmp_path / "table")
    with SinkTestHarness(tables.sink(lambda builder: builder.with_partition_by("word"))) as sink:
        sink.open()
        sink.process_elements([Row(word=word, n=-1) for word in "12x"])
        sink.snapshot(1)
        sink.notify_of_completed_checkpoint(1)
    versions = tables.versions()
    gate = tmp_path / "gate"
    overwrites = tables.sink(lambda builder: builder.with_overwrite())
    read = GatedNumbers(str(gate), 400, 100_000, late)
    job = RealTimeJob(tmp_path / "job", replacing(read, overwrites, shuffled=late is None), **OFTEN)
    try:
        job.await_checkpoints(4)  # with `late` the other subtask has ended by then
        assert tables.versions() == versions
        job.kill_slot(0)
        job.await_attempt(1)
        gate.touch()
        job.end()
    finally:
        job.close()
    expected = Counter((str(number % 10), number) for number in range(400)) + Counter([("x", -1)])
    assert Counter((row["word"], row["n"]) for row in tables.dicts()) == expected
    assert tables.versions() == versions + 1


@needs_proc
def test_a_drained_job_replaces_partitions_with_its_savepoint(tmp_path):
    (tmp_path / "table").mkdir()
    tables = FORMATS["delta"](tmp_path / "table")
    overwrites = tables.sink(lambda builder: builder.with_partition_by("word").with_overwrite())
    read = GatedNumbers(str(tmp_path / "never"), 400, 100_000)
    job = RealTimeJob(tmp_path / "job", replacing(read, overwrites, shuffled=False), **OFTEN)
    try:
        job.await_checkpoints(4)
        assert tables.dicts() == []
        job.savepoint(stop=True, drain=True)
        job.end()
    finally:
        job.close()
    assert sorted(row["n"] for row in tables.dicts()) == [*range(50), *range(200, 250)]
