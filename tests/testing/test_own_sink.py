"""The example of a sink of one's own keeps what `docs/sinks.md` asks of each step, whatever step a crash follows."""

from __future__ import annotations

import pytest

from pystate.common.errors import CommitError
from pystate.testing import OperatorTestHarness, SinkTestHarness
from tests.testing.test_examples import example

STEPS = ("write", "snapshot", "complete", "commit")


def opened(folder, snapshot=None, **options):
    harness = SinkTestHarness(example("own_sink").LinesSink(folder), **options)
    if snapshot is not None:
        harness.initialize_state(snapshot)
    harness.open()
    return harness


def visible(folder):
    return sorted(line for file in folder.glob("*.txt") for line in file.read_text().splitlines())


@pytest.mark.parametrize("crash", STEPS)
def test_a_crash_after_any_step_loses_and_doubles_nothing(tmp_path, crash):
    reached = STEPS.index(crash)
    with opened(tmp_path) as harness:
        harness.process_element("first")
        kept, unread = harness.snapshot(1), ["second"]
        harness.notify_of_completed_checkpoint(1)
        harness.process_element("second")
        if reached >= STEPS.index("snapshot"):
            snapshot = harness.snapshot(2)
        if reached >= STEPS.index("complete"):
            kept, unread = snapshot, []
        if crash == "commit":
            harness.notify_of_completed_checkpoint(2)
        assert visible(tmp_path) == (["first", "second"] if crash == "commit" else ["first"])
    with opened(tmp_path, kept) as harness:  # the source gives again what the checkpoint doesn't hold
        harness.process_elements([*unread, "third"])
        harness.snapshot(3)
        harness.notify_of_completed_checkpoint(3)
    assert visible(tmp_path) == ["first", "second", "third"]


def test_what_waits_for_its_commit_survives_another_parallelism(tmp_path):
    snapshots = []
    for index in range(2):
        with opened(tmp_path, parallelism=2, subtask_index=index) as harness:
            harness.process_element(f"of {index}")
            snapshots.append(harness.snapshot(1))
    assert visible(tmp_path) == []
    for index, share in enumerate(OperatorTestHarness.repartition(snapshots, 2, 3, 128)):
        opened(tmp_path, share, parallelism=3, subtask_index=index).close()
    assert visible(tmp_path) == ["of 0", "of 1"]


def test_a_file_that_somebody_has_removed_fails_the_job(tmp_path):
    with opened(tmp_path) as harness:
        harness.process_element("gone")
        snapshot = harness.snapshot(1)
    for file in tmp_path.iterdir():
        file.unlink()
    with pytest.raises(CommitError):
        opened(tmp_path, snapshot)
