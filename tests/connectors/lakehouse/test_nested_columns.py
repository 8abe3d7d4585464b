"""Rows within rows beside those that a table has: by their names, in any order."""

from __future__ import annotations

import pytest

from pystate.common import Row, Types
from pystate.common.errors import ConfigurationError
from pystate.testing import SinkTestHarness


def nested(*names):
    parts = {"x": Types.LONG(), "y": Types.STRING(), "z": Types.LONG()}
    return Types.ROW_NAMED(["at"], [Types.LIST(Types.ROW_NAMED(list(names), [parts[name] for name in names]))])


def write(tables, names, values, checkpoint, change=lambda builder: builder):
    sink = tables.sink(lambda builder: change(builder.with_row_type(nested(*names))))
    with SinkTestHarness(sink, attempt=checkpoint) as one:
        one.open()
        one.process_element(Row(at=[Row(**dict(zip(names, values, strict=True)))]))
        one.snapshot(checkpoint)
        one.notify_of_completed_checkpoint(checkpoint)


def test_fields_in_another_order_and_fields_that_only_the_table_has(tables):
    write(tables, "xyz", (1, "a", 2), 1)
    write(tables, "yx", ("b", 3), 2)
    found = sorted((row["at"][0] for row in tables.dicts()), key=lambda of: of["x"])
    assert found == [{"x": 1, "y": "a", "z": 2}, {"x": 3, "y": "b", "z": None}]


def test_a_field_that_the_table_lacks_is_refused_or_added(tables):
    write(tables, "xy", (1, "a"), 1)
    with pytest.raises(ConfigurationError, match="doesn't fit in"):
        write(tables, "xyz", (2, "b", 3), 2)
    if type(tables).__name__ == "IcebergTables":  # deltalake adds whole columns
        write(tables, "zxy", (3, 2, "b"), 2, lambda builder: builder.with_schema_evolution())
        found = sorted((row["at"][0] for row in tables.dicts()), key=lambda of: of["x"])
        assert found == [{"x": 1, "y": "a", "z": None}, {"x": 2, "y": "b", "z": 3}]
