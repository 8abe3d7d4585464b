"""Readers bring no more at once than is wanted: a barrier waits for all of it."""

from __future__ import annotations

import pytest

from pystate.connectors.generated.iterator_source import NumberSequenceSplit, RangeReader
from pystate.connectors.operators.element_sizes import ElementSizes
from pystate.runtime.slot.operators.operator_output import Output
from pystate.runtime.slot.operators.source_input import _Output


class Time:
    timestamp = None


class Context:
    def send_split_request(self):
        pass

    def get_index_of_subtask(self):
        return 0


def test_large_elements_are_wanted_in_small_numbers():
    elements = []
    output = _Output(Output(elements.append), Time())
    output.most_rows, output.sizes = 500, ElementSizes(100_000)
    assert output.room() == 500
    output.collect("x" * 10_000)
    assert 5 < output.room() < 11
    output.collect("y")
    assert elements == ["x" * 10_000, "y"]


@pytest.mark.parametrize("wanted", [1, 7])
def test_a_reader_brings_no_more_than_is_wanted(wanted):
    class Output:
        def __init__(self):
            self.elements = []
            self.collect = self.elements.append

        def room(self):
            return wanted

    reader = RangeReader(Context())
    reader.add_splits([NumberSequenceSplit("0", 1, 100)])
    reader.notify_no_more_splits()
    output, before = Output(), 0
    while before < 100:
        reader.poll_next(output)
        assert 0 < len(output.elements) - before <= wanted
        before = len(output.elements)
    assert output.elements == list(range(1, 101))
