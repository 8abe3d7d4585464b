"""A savepoint as notebooks show it, and its states as DataFrames of pandas: all of it without Spark."""

from __future__ import annotations

import re

import pytest

from pystate.common.errors import SnapshotError
from pystate.state_processor import SavepointReader
from tests.fixtures import all_kinds as jobs
from tests.state_processor.conftest import WORDS


@pytest.fixture(scope="module")
def reader(savepoint):
    return SavepointReader.read(None, savepoint)


def test_the_tree_has_operators_with_their_states_and_sizes(reader):
    text, html = repr(reader), reader._repr_html_()

    assert re.search(r"^\|-- typed.*: parallelism \d+, keys STRING, [\d.]+ K?B$", text, re.MULTILINE)
    assert re.search(rf"^\|   \|-- value  VALUE ROW<.*>  {len(WORDS)} entries, [\d.]+ K?B$", text, re.MULTILINE)
    assert re.search(r"^\|-- rules", text, re.MULTILINE)
    assert html.count("<details") == 3
    assert "ROW&lt;name STRING" in html
    assert "ROW<" not in html


def test_states_of_all_kinds_are_dataframes_of_pandas(reader):
    numbers = jobs.by_key(jobs.numbers_of(WORDS))
    lists = reader.to_pandas("typed", "list", key="dog")
    assert list(lists.columns) == ["key", "key_group", "index", "value"]
    assert list(lists["value"]) == [f"#{number}" for number in numbers["dog"]]
    values = reader.to_pandas("typed", "value")
    assert set(values["key"]) == set(WORDS)
    assert list(reader.to_pandas("rules", "rules").columns) == ["map_key", "value"]


def test_more_rows_than_the_limit_are_refused_not_cut(reader):
    assert len(reader.to_pandas("typed", "value", limit=len(WORDS))) == len(WORDS)
    with pytest.raises(SnapshotError, match="more than 7 rows"):
        reader.to_pandas("typed", "value", limit=len(WORDS) - 1)


def test_a_dataframe_of_spark_wants_a_session(reader):
    with pytest.raises(SnapshotError, match="without a Spark session") as refused:
        reader.read_keyed_state("typed", "value")
    assert "env.spark" in refused.value.hint
