"""Look-ups in tables: rows of the newest version, which is read again when there is another one."""

from __future__ import annotations

from typing import Any

import pytest

from pystate.common.errors import ConfigurationError, JobGraphError, PystateError
from pystate.common.time import Duration
from pystate.common.type_info import Types
from pystate.datastream.connectors.delta import TableLookup
from pystate.testing import OneInputOperatorTestHarness, SinkTestHarness
from tests.connectors.lakehouse.test_table_sources import add, made


class Clock:
    """Seconds that the test says."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def lookup(source: Any, clock: Any, keys: Any = ("word",)) -> TableLookup:
    return TableLookup(
        source,
        keys,
        lambda word: (word,),
        lambda word, rows: (word, sorted(row.n for row in rows)),
        reload_interval=Duration.of_seconds(60),
        clock=clock,
    )


def test_rows_of_the_newest_version_are_found_once_the_interval_is_over(tables):
    made(tables, "aab")
    clock = Clock()
    with OneInputOperatorTestHarness(lookup(tables.source(), clock)) as one:
        one.open()
        one.process_elements(["a", "z"])
        add(tables, "z")
        clock.now = 59
        one.process_elements(["z"])
        clock.now = 61
        one.process_elements(["z", "b"])
        tables.delete("b")
        clock.now = 200
        one.process_elements(["b"])
        assert one.extract_output() == [("a", [0, 1]), ("z", []), ("z", []), ("z", [0]), ("b", [2]), ("b", [])]


def test_what_can_not_be_looked_up_is_refused(tables):
    made(tables)
    with pytest.raises(JobGraphError, match="by a bounded source of the table as it is"):
        lookup(tables.following(), Clock())
    with pytest.raises(JobGraphError, match="have no nope to look up"):
        lookup(tables.source(), Clock(), ("nope",))
    strange = tables.source(lambda builder: builder.with_row_type(Types.ROW_NAMED(["strange"], [Types.LONG()])))
    with pytest.raises(ConfigurationError, match="has no column strange"):
        with OneInputOperatorTestHarness(lookup(strange, Clock(), ("strange",))) as one:
            one.open()


def test_a_key_that_is_null_finds_nothing_and_one_of_other_parts_is_refused(tables):
    with SinkTestHarness(tables.sink()) as sink:
        sink.open()
    tables.write_beside([{"word": None, "n": 1}, {"word": "a", "n": 2}])
    with OneInputOperatorTestHarness(lookup(tables.source(), Clock())) as one:
        one.open()
        one.process_elements([None, "a"])
        assert one.extract_output() == [(None, []), ("a", [2])]

    for parameters in (lambda word: (word, 1), lambda word: (), lambda word: word, len):
        wrong = TableLookup(tables.source(), ["word"], parameters, lambda word, rows: (word, rows))
        with OneInputOperatorTestHarness(wrong) as one:
            one.open()
            with pytest.raises(PystateError, match="the key is word: a value for each is needed"):
                one.process_element("a")


def test_a_column_that_the_table_loses_is_named(tables):
    made(tables, "a")
    clock = Clock()
    with OneInputOperatorTestHarness(lookup(tables.source(), clock)) as one:
        one.open()
        tables.rename_column("n", "number")
        clock.now = 61
        with pytest.raises(PystateError, match="has no column n"):
            one.process_element("a")
