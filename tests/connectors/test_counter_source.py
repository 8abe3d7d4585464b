"""The example of a source of one's own, and the one of docs/sources.md."""

from pystate.common import Types
from pystate.testing import SourceTestHarness
from tests.testing.test_examples import example


def test_the_example_counts_each_number_once_over_a_crash():
    module = example("counter_source")
    with SourceTestHarness(lambda: module.CounterSource(30_000), output_type=Types.LONG(), rows_per_epoch=2000) as harness:
        elements = harness.run_epoch()
        snapshots = harness.snapshot(1)
        harness.run_epoch()
    with SourceTestHarness(lambda: module.CounterSource(30_000), snapshots, output_type=Types.LONG()) as harness:
        assert elements + harness.run_to_end() == list(range(30_000))
