"""Collections of the program as sources in slots."""

from __future__ import annotations

import pytest

from pystate.common import Row, RowKind, Types
from pystate.common.errors import RecordError, RestoreError
from pystate.connectors.generated.collection_source import CollectionSource
from pystate.testing import SourceTestHarness

STRING = Types.STRING()


def letters(count=26):
    return [chr(97 + index % 26) * (1 + index // 26) for index in range(count)]


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("count", [0, 1, 2500])
def test_all_elements_come_once_in_their_order(count, parallelism):
    source = CollectionSource(letters(count), STRING, "letters")
    with SourceTestHarness(lambda: source, parallelism=parallelism, output_type=STRING) as harness:
        assert harness.run_to_end() == letters(count)


def test_elements_come_out_as_those_of_their_type_do():
    rows = Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.FLOAT()])
    source = CollectionSource([(1, 0.1), Row(a=2, b=0.5)], rows, "rows")
    with SourceTestHarness(lambda: source, output_type=rows) as harness:
        first, second = harness.run_to_end()
    assert (first.a, second.as_dict()) == (1, {"a": 2, "b": 0.5})
    assert abs(first.b - 0.1) < 1e-6
    with pytest.raises(RecordError):
        CollectionSource(["one"], Types.LONG(), "numbers")


def test_rows_keep_their_kinds():
    rows = Types.ROW_NAMED(["n"], [Types.LONG()])
    given = [Row.of_kind(kind, n=kind.value) for kind in RowKind]
    source = CollectionSource(given, rows, "rows")
    with SourceTestHarness(lambda: source, output_type=rows) as harness:
        assert harness.run_to_end() == given


def test_a_restored_collection_goes_on_and_must_begin_as_the_old_one_did():
    split = CollectionSource(letters(9), STRING, "letters").restore_split
    read = CollectionSource(letters(9), STRING, "letters").offset(4)
    plain = [read["index"], read["checksum"]]
    assert split(plain).to_plain() == plain
    longer = CollectionSource([*letters(9), "more"], STRING, "letters")
    assert longer.restore_split(plain).index == 4
    with pytest.raises(RestoreError, match="are not those that were read"):
        CollectionSource(["x", *letters(9)], STRING, "letters").restore_split(plain)
    with pytest.raises(RestoreError, match="4 elements of the collection were read; now it has 3"):
        CollectionSource(letters(3), STRING, "letters").restore_split(plain)
