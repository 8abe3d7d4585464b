"""Rows of all kinds between tasks of jobs on real Spark, with declared types and without."""

from __future__ import annotations

from collections import Counter

import pytest

from pystate.common import Row, RowKind, Types
from pystate.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from tests.engines import on_both_engines

CHANGE = Types.ROW_NAMED(["key", "n"], [Types.LONG(), Types.LONG()])
COUNT = 40


def change_of(number):
    return Row.of_kind(RowKind(number % 4), key=number % 3, n=number)


class Same(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield value


@pytest.mark.slow
@on_both_engines
def test_rows_keep_their_kinds_through_tasks_and_to_the_program(run_job, engine):
    found = {}

    def program():
        for name, type_info in (("declared", CHANGE), ("undeclared", None)):
            env = StreamExecutionEnvironment.get_execution_environment()
            rows = env.from_collection(list(range(COUNT)), Types.LONG()).rebalance().map(change_of, type_info)
            keyed = rows.key_by(lambda row: row.key, Types.LONG()).process(Same(), type_info)
            found[name] = list(keyed.rebalance().filter(lambda row: row.n >= 0).execute_and_collect())

    run_job(program, {"parallelism.default": "2", "execution.engine": engine}).result()

    for name, rows in found.items():
        assert Counter(map(repr, map(told, rows))) == Counter(repr(told(change_of(n))) for n in range(COUNT)), name


def told(row):
    return row.get_row_kind(), row.key, row.n
