"""Which shuffles a source's DataFrame has of its own."""

import pytest

from pystate.runtime.engines.micro_batch.spark.source_shuffles import source_shuffle_notices, source_shuffles


@pytest.mark.parametrize(
    ("shape", "moves", "others"),
    [
        (lambda frame: frame.where("value > 1"), False, ()),
        (lambda frame: frame.coalesce(1), False, ()),
        (lambda frame: frame.repartition(3, "value"), True, ()),
        (lambda frame: frame.repartition(3).union(frame), True, ()),
        (lambda frame: frame.join(frame.sparkSession.range(3), frame.value == 1), False, ("Join",)),
        (lambda frame: frame.groupBy("value").count().repartition(2), True, ("Aggregate",)),
    ],
)
def test_shuffles_are_found_in_the_plan(spark, shape, moves, others):
    frame = shape(spark.readStream.format("rate").load())
    found = source_shuffles(frame)
    assert (found.moves, found.others) == (moves, others)
    assert found.can_be_proven == (moves and not others)
    assert bool(source_shuffle_notices("rates", frame)) == bool(others)
